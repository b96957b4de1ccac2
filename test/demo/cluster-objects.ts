import { DEMO_SLUG } from '../../cli/demo/demo-cluster.ts'
import { CLAIM } from '../../contracts/claim.ts'
import { RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { names } from '../../contracts/names.ts'
import { sandboxPodSpec } from '../../devcluster/client/sandbox-pod-spec.ts'

/** Objects of the demo on a cluster, in addition to its keys: a namespace, an account, and one warm pool. */
export function demoObjects() {
  const { namespaces, pool, serviceAccounts } = names({ kind: 'preview', slug: DEMO_SLUG })
  const namespace = namespaces.sandboxes
  const metadata = { name: pool('agent'), namespace }
  const apiVersion = `${CLAIM.group}/${CLAIM.version}`
  const spec = {
    ...sandboxPodSpec({ runtimeClassName: RUNTIME_CLASSES.gvisor.name }),
    serviceAccountName: serviceAccounts.agentHost,
    terminationGracePeriodSeconds: 2,
  }
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: serviceAccounts.agentHost, namespace } },
    {
      apiVersion,
      kind: 'SandboxTemplate',
      metadata,
      spec: { networkPolicyManagement: 'Unmanaged', podTemplate: { spec } },
    },
    {
      apiVersion,
      kind: 'SandboxWarmPool',
      metadata,
      spec: { replicas: 1, sandboxTemplateRef: { name: pool('agent') } },
    },
  ]
}
