import type { Chart } from 'cdk8s'
import { ConfigMap, ServiceAccount } from 'cdk8s-plus-28'
import { EXECUTOR_KEYS, names, type SandboxKind } from '../../contracts/names.ts'
import { mib } from '../constructs/quantities.ts'
import { sandboxPodSpec, WORKSPACE_VOLUME } from '../constructs/sandbox-pod.ts'
import { SandboxPool } from '../constructs/sandbox-pool.ts'
import type { Environment } from '../environment/schema.ts'
import { vaultReader } from '../environment/vault-reader.ts'
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
  const podSpec = sandboxPodSpec(environment, 'agent', vaultReader(environment))
  addPool(chart, 'agent', { environment, podSpec })
  addPool(chart, 'command', { environment, podSpec: sandboxPodSpec(environment, 'command') })
}

interface Pool {
  readonly environment: Environment
  readonly podSpec: ReturnType<typeof sandboxPodSpec>
}

function addPool(chart: Chart, kind: SandboxKind, { environment, podSpec }: Pool): void {
  const { slice, sizes } = environment
  const { workspace, [kind]: size } = sizes.sandboxes
  const { pool, namespaces } = names(slice)
  new SandboxPool(chart, kind, {
    name: pool(kind),
    namespace: namespaces.sandboxes,
    podLabels: workloads(slice).sandbox(kind).labels,
    podSpec,
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
