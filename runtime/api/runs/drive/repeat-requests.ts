import type { RunRow } from '../../../store/store.ts'
import { hostCommandOf } from '../command-records.ts'
import type { Serving } from './departure.ts'
import type { Position } from './read-position.ts'

type Repeating = {
  readonly run: RunRow
  /** Calls that this sandbox has not announced again. */
  readonly carried: ReadonlySet<string>
  readonly signal: AbortSignal
  readonly onCommand: (id: string) => void
}

/** Repeats requests that the sandbox may not have received. A repeated request has no effect. */
export async function repeatRequests(
  { client, relay }: Serving,
  { decisions, commands }: Position,
  { run, carried, signal, onCommand }: Repeating,
): Promise<void> {
  const announced = decisions.filter(({ callId }) => !carried.has(callId))
  if (announced.length > 0) await relay.post(announced, signal)
  for (const { id, request } of commands) {
    onCommand(id)
    await client.startCommand(id, hostCommandOf(request, run.settings), signal)
  }
}
