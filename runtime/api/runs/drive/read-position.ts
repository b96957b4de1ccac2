import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { HostEvent } from '../../../../contracts/events.ts'
import type { ApprovalRow, CommandRow, RunRow, Store, TurnRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import type { BatchCommitter } from '../ingest/commit-batch.ts'

const PAGE = 500

export type TurnEnded = Extract<HostEvent, { type: 'turn.ended' }>['data']

/** The position of a run, for a driver that continues it. */
export type Position = {
  /** A turn that the sandbox may not have received. */
  readonly turn?: TurnRow
  /** The last turn, where the run ended it and went no further. */
  readonly ended?: { readonly turn: TurnRow; readonly end: TurnEnded }
  readonly pending: readonly ApprovalRow[]
  readonly commands: readonly CommandRow[]
  /** Decisions about calls that have not ended. The sandbox applies each of them once. */
  readonly decisions: readonly CallDecision[]
}

/** Shows the committer every event of the run. Returns how its turns ended, by turn. */
export async function recallEvents(
  store: Pick<Store, 'readEvents'>,
  runId: string,
  committer: BatchCommitter,
): Promise<ReadonlyMap<string, TurnEnded>> {
  const ends = new Map<string, TurnEnded>()
  for (let after = 0; ; ) {
    const page = await store.readEvents(runId, after, PAGE)
    for (const { event } of page) {
      committer.recall(event)
      if (event.type === 'turn.ended') ends.set(event.data.turnId, event.data)
    }
    after = page.at(-1)?.sequence ?? after
    if (page.length < PAGE) return ends
  }
}

/** Reads the position of a run from the store, and shows the committer the earlier events of its sandbox. */
export async function readPosition(
  { store }: RunDeps,
  run: RunRow,
  committer: BatchCommitter,
): Promise<Position> {
  const ends = await recallEvents(store, run.id, committer)
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
