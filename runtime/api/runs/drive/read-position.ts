import { StartCommand } from '../../../../contracts/api.ts'
import type { CallDecision } from '../../../../contracts/decisions.ts'
import type { HostEvent } from '../../../../contracts/events.ts'
import type { ApprovalRow, RunRow, TurnRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'

export type TurnEnded = Extract<HostEvent, { type: 'turn.ended' }>['data']

/** The position of a run, for a driver that continues it. */
export type Position = {
  /** A turn that the sandbox may not have received. */
  readonly turn?: TurnRow
  /** The last turn, where the run ended it and went no further. */
  readonly ended?: { readonly turn: TurnRow; readonly end: TurnEnded }
  readonly pending: readonly ApprovalRow[]
  readonly commands: readonly { readonly id: string; readonly request: StartCommand }[]
  /** Decisions about calls that have not ended. The sandbox applies each of them once. */
  readonly decisions: readonly CallDecision[]
}

/**
 * Reads the position of a run from the store. It reads rows of open work only, so the time does not depend on the number of
 * the run's events.
 */
export async function readPosition({ store }: Pick<RunDeps, 'store'>, run: RunRow): Promise<Position> {
  return store.transaction(async (tx) => {
    const calls = await tx.listCalls(run.id, ['open', 'released', 'refused'])
    const [sent] = await tx.listTurns(run.id, ['sent'])
    const last = run.state === 'running' && !sent ? await tx.lastEndedTurn(run.id) : undefined
    return {
      ...(sent && { turn: sent }),
      ...(last?.end && { ended: { turn: last, end: { turnId: last.id, ...last.end } } }),
      pending: await tx.listApprovals(run.id, { state: 'pending' }),
      commands: (await tx.listRunningCommands(run.id)).map(({ id, request }) => ({
        id,
        request: StartCommand.parse(request),
      })),
      // A file write of a person is no call of the agent, and waits for no decision.
      decisions: calls.flatMap(({ decision }) => (decision ? [decision] : [])),
    }
  })
}
