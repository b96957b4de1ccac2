import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import { MAX_EVENT_CHARACTERS } from '../ingest/event-weight.ts'
import { Relay, type RelayOptions } from '../ingest/relay.ts'
import type { Obtained } from './obtain-sandbox.ts'

type Hooks = Pick<
  RelayOptions,
  'onCommitted' | 'beforePost' | 'heldUntil' | 'signal' | 'log' | 'onBroken'
> & {
  readonly begun: Promise<void> | undefined
}

/** The relay between a sandbox that was obtained and the committer of its run. */
export function openRelay(
  run: RunRow,
  { launched, committer, after }: Obtained,
  { begun, ...hooks }: Hooks,
): Relay {
  const { generation, client } = launched
  const commit: RelayOptions['commit'] = (batch) => committer.commit(batch)
  const sandbox = { runId: run.id, generation, client, after, commit, maxWeight: MAX_EVENT_CHARACTERS }
  return new Relay({ ...sandbox, ...hooks, ...present({ begun }) })
}
