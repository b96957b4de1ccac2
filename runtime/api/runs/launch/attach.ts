import { bestEffort } from '../../../kit/best-effort.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { SharedSandboxes } from '../../../sandboxes/provider.ts'
import type { ClaimRow, RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { claimName } from '../ids.ts'
import { clientFor } from './configuration.ts'
import type { LaunchedSandbox } from './launched-sandbox.ts'

const ATTACH_TIMEOUT_MS = 20_000

/** The claim under which a run is served, as its row has it. */
export async function claimOf({ store, provider }: RunDeps, run: RunRow): Promise<ClaimRow | undefined> {
  const { generation } = run
  const name = claimName(run.kind, run.id, generation)
  return store.transaction((tx) => tx.readClaim({ namespace: provider.namespace, name, generation }))
}

type Attachment = Parameters<SharedSandboxes['attach']>[0]

/** How a run's sandbox is found again; `sandbox_lost` where the run has none. */
export async function attachmentOf(
  deps: RunDeps,
  run: RunRow,
  signal: AbortSignal,
): Promise<Attachment & { readonly claim: ClaimRow }> {
  const claim = await claimOf(deps, run)
  const { uid, sandboxUid: sandbox, podUid: pod } = claim ?? {}
  if (claim?.state !== 'bound' || !uid || !sandbox || !pod)
    throw new SandboxError('sandbox_lost', 'the run has no sandbox any more')
  const uids = { claim: uid, sandbox, pod }
  const { id: runId, generation } = run
  return {
    claim,
    claimName: claim.name,
    runId,
    generation,
    kind: run.kind,
    handle: claim.handle,
    uids,
    signal,
  }
}

/** Takes over the sandbox of a run that another process drove. */
export async function attach(
  deps: RunDeps & { readonly shared: SharedSandboxes },
  run: RunRow,
  interrupted: AbortSignal,
): Promise<LaunchedSandbox> {
  const signal = withTimeout(ATTACH_TIMEOUT_MS, interrupted)
  const { claim, ...attachment } = await attachmentOf(deps, run, signal)
  const sandbox = await deps.shared.attach(attachment)
  const client = clientFor(deps, run, sandbox)
  await sandbox.openNetwork?.(client)
  return { sandbox, claim, generation: run.generation, client }
}

/** Cleans up the claim of the run's current generation, in any state. */
export async function discardClaim(deps: RunDeps, run: RunRow): Promise<void> {
  const { store, provider, log } = deps
  const claim = await claimOf(deps, run)
  if (!claim || claim.state === 'released') return
  await bestEffort(log, `collect the sandbox of claim ${claim.name}`, async () => {
    if (claim.handle !== undefined) await provider.collect(claim.handle)
    await store.transaction((tx) => tx.changeClaim(claim, { state: 'released' }))
  })
}
