import { names } from '../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../contracts/ports.ts'
import type { Log } from '../kit/log.ts'
import { loadKubeConnection } from '../sandboxes/kubernetes/client/kube-connection.ts'
import { KubernetesProvider } from '../sandboxes/kubernetes/kubernetes-provider.ts'
import { PROVIDER_TIMING } from '../sandboxes/kubernetes/provider-timing.ts'
import { LocalProvider, type LocalProviderOptions } from '../sandboxes/local/local-provider.ts'
import type { SandboxProvider } from '../sandboxes/provider.ts'
import type { ApiConfig } from './config.ts'

type Local = Pick<LocalProviderOptions, 'jwksFile' | 'selectIsolation' | 'toolRoots' | 'hostRoots' | 'entry'>

/** Creates the configured sandbox provider. There is no fallback to the other one. */
export function composeProvider(
  config: ApiConfig,
  { log, ...local }: Local & { readonly log: Log },
): SandboxProvider {
  const { sandboxes } = config
  if (sandboxes.kind === 'kubernetes') return composeKubernetes(sandboxes, log)
  const logLevel = config.logLevel === 'silent' ? 'error' : config.logLevel
  return new LocalProvider({ ...local, warm: sandboxes.warm, logLevel, log })
}

type OnKubernetes = Extract<ApiConfig['sandboxes'], { kind: 'kubernetes' }>

function composeKubernetes({ slice, kubeconfig, ...wanted }: OnKubernetes, log: Log): SandboxProvider {
  const { namespaces, pool, serviceAccounts } = names(slice)
  const accounts = { agent: serviceAccounts.agentHost, command: serviceAccounts.commandHost }
  return new KubernetesProvider({
    connect: () =>
      loadKubeConnection(kubeconfig ? { kind: 'file', path: kubeconfig } : { kind: 'in-cluster' }),
    namespace: namespaces.sandboxes,
    pool,
    serviceAccount: (kind) => accounts[kind],
    deploymentId: wanted.deploymentId,
    runtimeClass: wanted.runtimeClass,
    agentHostPort: AGENT_HOST_PORT,
    timing: PROVIDER_TIMING,
    clock: () => new Date(),
    log,
  })
}
