import { randomUUID } from 'node:crypto'
import { inject, onTestFinished } from 'vitest'
import { names } from '../../../contracts/names.ts'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { loadKubeConnection } from '../../../runtime/sandboxes/kubernetes/client/kube-connection.ts'
import { KubernetesProvider } from '../../../runtime/sandboxes/kubernetes/kubernetes-provider.ts'
import type { KubernetesProviderOptions } from '../../../runtime/sandboxes/kubernetes/provider-options.ts'
import { PROVIDER_TIMING } from '../../../runtime/sandboxes/kubernetes/provider-timing.ts'
import type { BoundSandbox, ClaimRequest } from '../../../runtime/sandboxes/provider.ts'
import { useSandboxSpace } from './sandbox-space.ts'

/** Deleting a claim deletes its Sandbox too. Each has a separate watch, and either event can arrive first. */
export const GONE_WITH_ITS_CLAIM = /^the (claim|sandbox) (was|is being) deleted$/

type Overrides = Partial<KubernetesProviderOptions>

/** A namespace with pools of sandboxes, and providers that claim there as the API does. */
export function useProviderSpace(prefix: string) {
  const space = useSandboxSpace(prefix)
  const options = (pool: string, over: Overrides = {}): KubernetesProviderOptions => ({
    connect: () => loadKubeConnection({ kind: 'file', path: inject('cluster').kubeconfig }),
    namespace: space.name,
    pool: () => pool,
    serviceAccount: () => 'default',
    deploymentId: 'test',
    runtimeClass: undefined,
    agentHostPort: AGENT_HOST_PORT,
    timing: PROVIDER_TIMING,
    clock: () => new Date(),
    log: silentLog,
    ...over,
  })
  return {
    ...space,
    names: names({ kind: 'base' }),
    /** A provider that has started; it is closed after the test. */
    async startProvider(pool: string, over: Overrides = {}): Promise<KubernetesProvider> {
      const provider = new KubernetesProvider(options(pool, over))
      onTestFinished(() => provider.close())
      await provider.start()
      return provider
    },
  }
}

export type Claiming = Partial<ClaimRequest> & { readonly uids?: string[] }

/** Creates a claim as the API does: it drafts the handle and stores the UID. */
export function claimWith(provider: KubernetesProvider, over: Claiming = {}): Promise<BoundSandbox> {
  const { uids = [], ...request } = over
  const claimName = request.claimName ?? `agent-${randomUUID().replaceAll('-', '')}`
  return provider.claim({
    claimName,
    runId: 'run_1',
    generation: 1,
    kind: 'agent',
    handle: provider.draft(claimName),
    onPosted: async (uid) => void uids.push(uid),
    signal: AbortSignal.timeout(60_000),
    ...request,
  })
}
