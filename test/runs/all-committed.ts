import type { HostEnvelope } from '../../contracts/events.ts'
import type { Committed } from '../../runtime/api/runs/commit-batch.ts'

/** What a store answers that has committed all of a batch, of which nothing follows. */
export function allCommitted(envelopes: readonly HostEnvelope[]): Committed {
  const through = envelopes.at(-1)?.sequence ?? 0
  return { through, ackThrough: through, decisions: [], approvals: [], endedTurns: [], endedCommands: [] }
}
