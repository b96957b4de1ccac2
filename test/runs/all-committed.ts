import type { HostEnvelope } from '../../contracts/events.ts'
import type { Committed } from '../../runtime/api/runs/ingest/commit-batch.ts'

/** The result of a store that has committed a whole batch without further effects. */
export function allCommitted(envelopes: readonly HostEnvelope[]): Committed {
  const through = envelopes.at(-1)?.sequence ?? 0
  return { through, ackThrough: through, decisions: [], approvals: [], endedTurns: [], endedCommands: [] }
}
