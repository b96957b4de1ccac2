import { randomUUID } from 'node:crypto'
import { onTestFinished as onThisTestFinished, type TestContext } from 'vitest'
import { silentLog } from '../../../runtime/kit/log.ts'
import { KubernetesProvider } from '../../../runtime/sandboxes/kubernetes/kubernetes-provider.ts'
import type { ProviderTiming } from '../../../runtime/sandboxes/kubernetes/provider-options.ts'
import type { BoundSandbox, ClaimRequest } from '../../../runtime/sandboxes/provider.ts'
import { startSandboxController } from '../../fakes/kube/sandbox-controller.ts'
import { startFakeKubeApi } from '../../fakes/kube-api.ts'
import { NAMESPACE, plainConnection, QUICK_TRANSPORT, QUICK_WATCH } from './kube-rig.ts'

const QUICK: ProviderTiming = {
  transport: QUICK_TRANSPORT,
  watch: QUICK_WATCH,
  lifetime: { lifetimeMs: 1_800_000, extendEveryMs: 600_000 },
  startMs: 60_000,
  suspectAfterMs: 150,
  deleteMs: 60_000,
  unreadyMs: 400,
  checkEveryMs: 100,
}

export type RigOptions = {
  readonly timing?: Partial<ProviderTiming>
  readonly clock?: () => Date
  /** The hook from the test's own context. Concurrent tests need it. */
  readonly onTestFinished?: TestContext['onTestFinished']
}

/** Starts a provider on a fake API server with a fake controller. */
export async function startClaimRig({
  timing = {},
  clock = () => new Date(),
  onTestFinished = onThisTestFinished,
}: RigOptions = {}) {
  const fake = await startFakeKubeApi()
  const controller = startSandboxController(fake, { namespace: NAMESPACE, serviceAccount: 'agent-host' })
  const provider = new KubernetesProvider({
    connect: async () => plainConnection(fake.url),
    namespace: NAMESPACE,
    pool: () => 'pool',
    serviceAccount: () => 'agent-host',
    deploymentId: 'test',
    runtimeClass: undefined,
    agentHostPort: 8088,
    timing: { ...QUICK, ...timing },
    clock,
    log: silentLog,
  })
  onTestFinished(async () => {
    await provider.close()
    await fake.close()
  })
  const rig = {
    fake,
    controller,
    provider,
    /** Names of the objects that `verb` was asked for since the provider has started. */
    asked: (verb: string, plural: string) => fake.count(verb, plural),
    claim(over: Partial<ClaimRequest> = {}): Promise<BoundSandbox> {
      const claimName = over.claimName ?? `agent-${randomUUID()}`
      return provider.claim({
        claimName,
        runId: 'run_1',
        generation: 1,
        kind: 'agent',
        handle: provider.draft(claimName),
        onPosted: async () => undefined,
        signal: AbortSignal.timeout(60_000),
        ...over,
      })
    },
  }
  return rig
}

export type ClaimRig = Awaited<ReturnType<typeof startClaimRig>>
