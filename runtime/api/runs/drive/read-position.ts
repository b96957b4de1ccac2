import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { HostEvent, RunEvent } from '../../../../contracts/events.ts'
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

type Reading = Pick<Store, 'readRun' | 'readEvents'>
type Past = Pick<RunRow, 'id' | 'source'>

/**
 * Shows the committer every event of the run, and before them those of the runs that it descends from, up to the
 * checkpoints that were copied: what they have touched is in the conversation and in the files. Returns how the turns of
 * the run ended, by turn.
 */
export async function recallEvents(
  store: Reading,
  run: Past,
  committer: Pick<BatchCommitter, 'recall'>,
): Promise<ReadonlyMap<string, TurnEnded>> {
  const ends = new Map<string, TurnEnded>()
  for (const { runId, through } of await lineOf(store, run)) {
    for await (const event of eventsOf(store, runId, through)) {
      committer.recall(event)
      if (event.type === 'turn.ended' && runId === run.id) ends.set(event.data.turnId, event.data)
    }
  }
  return ends
}

type Part = { readonly runId: string; readonly through: number }

/** The run and those that it descends from, the oldest first, with the last event of each that counts. */
async function lineOf(store: Reading, run: Past): Promise<readonly Part[]> {
  const line: Part[] = [{ runId: run.id, through: Number.MAX_SAFE_INTEGER }]
  for (let source = run.source; source; source = (await store.readRun(source.runId))?.source)
    line.unshift({ runId: source.runId, through: source.sequence })
  return line
}

async function* eventsOf(store: Reading, runId: string, through: number): AsyncGenerator<RunEvent> {
  for (let after = 0; ; ) {
    const page = await store.readEvents(runId, after, PAGE)
    for (const { event } of page.filter(({ sequence }) => sequence <= through)) yield event
    after = page.at(-1)?.sequence ?? after
    if (page.length < PAGE || after >= through) return
  }
}

/** Reads the position of a run from the store, and shows the committer the earlier events of its sandbox. */
export async function readPosition(
  { store }: RunDeps,
  run: RunRow,
  committer: BatchCommitter,
): Promise<Position> {
  const ends = await recallEvents(store, run, committer)
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
