import { CLASS_LABEL } from '../contracts/labels.ts'
import { names, type SandboxKind, type Slice } from '../contracts/names.ts'

type Labels = Readonly<Record<string, string>>

/** What a Gateway's own pods carry (Gateway API, label of provisioned infrastructure). */
const GATEWAY_NAME_LABEL = 'gateway.networking.k8s.io/gateway-name'

/**
 * Where each workload runs and by which labels its pods are known from birth. Selectors of Services, policies and
 * monitors all come from here.
 */
export function workloads(slice: Slice) {
  const { prefix, namespaces } = names(slice)
  const component = (name: string): Labels => ({
    'app.kubernetes.io/name': name,
    'app.kubernetes.io/part-of': prefix,
  })
  const gateway = (name: string) => ({
    name,
    namespace: namespaces.controlPlane,
    labels: { [GATEWAY_NAME_LABEL]: name } as Labels,
  })
  return {
    api: { name: `${prefix}-api`, namespace: namespaces.controlPlane, labels: component('api') },
    egressProxy: {
      name: `${prefix}-egress-proxy`,
      namespace: namespaces.egress,
      labels: component('egress-proxy'),
    },
    sandbox: (kind: SandboxKind) => ({
      namespace: namespaces.sandboxes,
      labels: { ...component('sandbox'), [CLASS_LABEL]: kind } as Labels,
    }),
    apiGateway: gateway(`${prefix}-api`),
    previewGateway: gateway(`${prefix}-preview`),
    clusterDns: { namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } as Labels },
  } as const
}
