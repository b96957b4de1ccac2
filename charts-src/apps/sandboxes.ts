import type { Chart } from 'cdk8s'
import { ConfigMap, ServiceAccount } from 'cdk8s-plus-28'
import { EXECUTOR_KEYS, names, SandboxKind } from '../../contracts/names.ts'
import { SandboxTemplate, SandboxWarmPool } from '../constructs/agent-sandbox.ts'
import { mib } from '../constructs/quantities.ts'
import { sandboxPodSpec, WORKSPACE_VOLUME } from '../constructs/sandbox-pod.ts'
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
  const named = { name: pool(kind), namespace: namespaces.sandboxes }
  new SandboxTemplate(chart, `${kind}-template`, {
    ...named,
    podLabels: workloads(slice).sandbox(kind).labels,
    podSpec: sandboxPodSpec(environment, kind),
    ...(workspace === 'volume' && {
      volume: {
        name: WORKSPACE_VOLUME,
        storageClassName: clusterNames().workspaceStorage,
        size: mib(size.volumes.workspaceMib),
      },
    }),
  })
  new SandboxWarmPool(chart, `${kind}-pool`, {
    ...named,
    template: named.name,
    ...(size.warm.owner === 'tree' && { replicas: size.warm.replicas }),
  })
}
