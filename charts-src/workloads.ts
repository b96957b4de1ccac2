import { CLASS_LABEL, COMPONENT_LABEL, COMPONENTS } from '../contracts/labels.ts'
import { names, type SandboxKind, type Slice } from '../contracts/names.ts'
import { API_PORT } from '../contracts/ports.ts'

type Labels = Readonly<Record<string, string>>

/** Label of pods that a Gateway implementation provisions (Gateway API). */
const GATEWAY_NAME_LABEL = 'gateway.networking.k8s.io/gateway-name'

/** The label that names the slice of an object. Every object of a slice carries it. */
export const PART_OF_LABEL = 'app.kubernetes.io/part-of'

/** Names of cluster-scoped objects. The base slice renders them; previews refer to them. */
export function clusterNames() {
  const { prefix } = names({ kind: 'base' })
  return {
    priorityClasses: { controlPlane: `${prefix}-control-plane`, sandbox: `${prefix}-sandbox` },
    workspaceStorage: `${prefix}-workspace`,
  } as const
}

/**
 * Namespace and labels of each workload. Selectors of Services, policies and monitors are built from these.
 */
export function workloads(slice: Slice) {
  const { prefix, namespaces, serviceAccounts } = names(slice)
  const component = (name: keyof typeof COMPONENTS): Labels => ({
    [COMPONENT_LABEL]: COMPONENTS[name],
    [PART_OF_LABEL]: prefix,
  })
  const gateway = (name: string) => ({
    name,
    namespace: namespaces.controlPlane,
    labels: { [GATEWAY_NAME_LABEL]: name } as Labels,
  })
  return {
    api: { name: serviceAccounts.api, namespace: namespaces.controlPlane, labels: component('api') },
    databaseSetup: {
      name: serviceAccounts.databaseSetup,
      namespace: namespaces.controlPlane,
      labels: component('databaseSetup'),
    },
    /** The API's Service for replicas of the egress proxy. */
    egressControl: { name: `${prefix}-egress-control`, namespace: namespaces.controlPlane },
    egressProxy: {
      name: serviceAccounts.egressProxy,
      namespace: namespaces.egress,
      labels: component('egressProxy'),
    },
    sandbox: (kind: SandboxKind) => ({
      namespace: namespaces.sandboxes,
      labels: { [CLASS_LABEL]: kind, ...component('sandbox') } as Labels,
    }),
    apiGateway: gateway(`${prefix}-api`),
    previewGateway: gateway(`${prefix}-preview`),
    clusterDns: { namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } as Labels },
  } as const
}

/**
 * Accepted `Host` headers of the API: its host name behind the Gateway, and its Service name. The API also
 * accepts the pod's own address, which probes send.
 */
export function apiHosts(slice: Slice, { zone }: { readonly zone: string }) {
  const { name, namespace } = workloads(slice).api
  const service = `${name}.${namespace}.svc`
  const inCluster = [service, `${service}.cluster.local`].map((host) => `${host}:${API_PORT}`)
  return { public: `api.${zone}`, inCluster } as const
}
