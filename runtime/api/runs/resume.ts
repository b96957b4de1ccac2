import type { CallDecision } from '../../../contracts/decisions.ts'
import type { HostEvent } from '../../../contracts/events.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { withTimeout } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { SharedSandboxes } from '../../sandboxes/provider.ts'
import type { ApprovalRow, ClaimRow, CommandRow, RunRow, TurnRow } from '../../store/store.ts'
import type { BatchCommitter } from './commit-batch.ts'
import { clientFor } from './configuration.ts'
import type { RunDeps } from './deps.ts'
import { claimName } from './ids.ts'
import type { LaunchedSandbox } from './launch.ts'

const ATTACH_TIMEOUT_MS = 20_000
const PAGE = 500

/** The claim under which a run is served, as its row has it. */
export async function claimOf({ store, provider }: RunDeps, run: RunRow): Promise<ClaimRow | undefined> {
  const { generation } = run
  const name = claimName(run.kind, run.id, generation)
  return store.transaction((tx) => tx.readClaim({ namespace: provider.namespace, name, generation }))
}

type Attach = Parameters<SharedSandboxes['attach']>[0]

/** How a run's sandbox is found again; `sandbox_lost` where the run has none. */
export async function attachmentOf(
  deps: RunDeps,
  run: RunRow,
  signal: AbortSignal,
): Promise<Attach & { readonly claim: ClaimRow }> {
  const claim = await claimOf(deps, run)
  const { uid, sandboxUid: sandbox, podUid: pod } = claim ?? {}
  if (claim?.state !== 'bound' || !uid || !sandbox || !pod)
    throw new SandboxError('sandbox_lost', 'the run has no sandbox any more')
  const uids = { claim: uid, sandbox, pod }
  return { claim, claimName: claim.name, kind: run.kind, handle: claim.handle, uids, signal }
}

/** Takes over the sandbox of a run that another process drove. */
export async function resume(
  deps: RunDeps & { readonly shared: SharedSandboxes },
  run: RunRow,
  interrupted: AbortSignal,
): Promise<LaunchedSandbox> {
  const signal = withTimeout(ATTACH_TIMEOUT_MS, interrupted)
  const { claim, ...attachment } = await attachmentOf(deps, run, signal)
  const sandbox = await deps.shared.attach(attachment)
  return { sandbox, claim, generation: run.generation, client: clientFor(deps, run, sandbox) }
}

/** Cleans up after the claim of the run's current generation, whatever became of it. */
export async function discardClaim(deps: RunDeps, run: RunRow): Promise<void> {
  const { store, provider, log } = deps
  const claim = await claimOf(deps, run)
  if (!claim || claim.state === 'released') return
  await bestEffort(log, `collect the sandbox of claim ${claim.name}`, async () => {
    if (claim.handle !== undefined) await provider.collect(claim.handle)
    await store.transaction((tx) => tx.changeClaim(claim, { state: 'released' }))
  })
}

export type TurnEnded = Extract<HostEvent, { type: 'turn.ended' }>['data']

/** What a driver of the run would know, had it driven the run from the start. */
export type Resumed = {
  /** A turn that the sandbox may not have been told of. */
  readonly turn?: TurnRow
  /** The last turn, where the run ended it and went no further. */
  readonly ended?: { readonly turn: TurnRow; readonly end: TurnEnded }
  readonly pending: readonly ApprovalRow[]
  readonly commands: readonly CommandRow[]
  /** What was decided of calls that have not ended; the sandbox takes each of them once. */
  readonly decisions: readonly CallDecision[]
}

/** Reads from the store where a run is, and lets the committer see what its sandbox has told before. */
export async function readPosition(
  { store }: RunDeps,
  run: RunRow,
  committer: BatchCommitter,
): Promise<Resumed> {
  const ends = new Map<string, TurnEnded>()
  for (let after = 0; ; ) {
    const page = await store.readEvents(run.id, after, PAGE)
    for (const { event } of page) {
      committer.recall(event)
      if (event.type === 'turn.ended') ends.set(event.data.turnId, event.data)
    }
    after = page.at(-1)?.sequence ?? after
    if (page.length < PAGE) break
  }
  return store.transaction(async (tx) => {
    const turns = await tx.listTurns(run.id)
    const calls = await tx.listCalls(run.id, ['open', 'released', 'refused'])
    const sent = turns.find(({ state }) => state === 'sent')
    const last = turns.filter(({ state }) => state === 'ended').at(-1)
    const end = last && ends.get(last.id)
    const isBetweenTurns = run.state === 'running' && !sent
    return {
      ...(sent && { turn: sent }),
      ...(isBetweenTurns && last && end && { ended: { turn: last, end } }),
      pending: await tx.listApprovals(run.id, { state: 'pending' }),
      commands: await tx.listRunningCommands(run.id),
      // A file write of a person is no call of the agent, and waits for no decision.
      decisions: calls.flatMap(({ decision }) => (decision ? [decision as CallDecision] : [])),
    }
  })
}
