import type { Chart } from 'cdk8s'
import { ConfigMap, ServiceAccount } from 'cdk8s-plus-28'
import { EXECUTOR_KEYS, names, SandboxKind } from '../../contracts/names.ts'
import { mib } from '../constructs/quantities.ts'
import { sandboxPodSpec, WORKSPACE_VOLUME } from '../constructs/sandbox-pod.ts'
import { SandboxPool } from '../constructs/sandbox-pool.ts'
import type { Environment } from '../environment/schema.ts'
import { clusterNames, workloads } from '../workloads.ts'

/** Templates and warm pools of the sandboxes. */
export function addSandboxes(chart: Chart, environment: Environment): void {
  const { slice, keys } = environment
  const { namespaces, serviceAccounts, executorKeys } = names(slice)
  const namespace = namespaces.sandboxes
  for (const name of [serviceAccounts.agentHost, serviceAccounts.commandHost]) {
    new ServiceAccount(chart, name, { metadata: { name, namespace }, automountToken: false })
  }
  new ConfigMap(chart, 'Keys', {
    metadata: { name: executorKeys, namespace },
    data: { [EXECUTOR_KEYS.file]: `${JSON.stringify(keys.jwks)}\n` },
  })
  for (const kind of SandboxKind.options) addPool(chart, environment, kind)
}

function addPool(chart: Chart, environment: Environment, kind: SandboxKind): void {
  const { slice, sizes } = environment
  const { workspace, [kind]: size } = sizes.sandboxes
  const { pool, namespaces } = names(slice)
  new SandboxPool(chart, kind, {
    name: pool(kind),
    namespace: namespaces.sandboxes,
    podLabels: workloads(slice).sandbox(kind).labels,
    podSpec: sandboxPodSpec(environment, kind),
    volume:
      workspace === 'volume'
        ? {
            name: WORKSPACE_VOLUME,
            storageClassName: clusterNames().workspaceStorage,
            size: mib(size.volumes.workspaceMib),
          }
        : undefined,
    replicas: size.warm.owner === 'tree' ? size.warm.replicas : undefined,
  })
}
