import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { HostEvent } from '../../../../contracts/events.ts'
import type { ApprovalRow, CommandRow, RunRow, TurnRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { BatchCommitter } from '../ingest/commit-batch.ts'

const PAGE = 500

export type TurnEnded = Extract<HostEvent, { type: 'turn.ended' }>['data']

/** What a driver of the run would know, had it driven the run from the start. */
export type Position = {
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
): Promise<Position> {
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
