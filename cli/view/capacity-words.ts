import type { RunEvent } from '../../contracts/events.ts'
import { duration } from '../terminal/duration.ts'
import { visible } from '../terminal/visible.ts'

type Pending = Extract<RunEvent, { type: 'subtask.pending_capacity' }>['data']

/** Explains why a run has no sandbox yet, and the user's options. Later attempts get a short text. */
export function capacityWords(data: Pending, at: string): string {
  const tries = `tries again as soon as there is room, at the latest in ${untilNext(data, at)}`
  if (data.attempt > 1)
    return `Still no room: ${shortageOf(data)}. The service ${tries} (try ${data.attempt}).`
  return [
    `The cluster has no room for this run yet: ${shortageOf(data)}.`,
    `The service ${tries}; you need not do anything.`,
    'To give up: agentweaver cancel RUN. If it lasts, an operator can add room: agentweaver capacity --help.',
  ].join('\n')
}

const untilNext = ({ nextAttemptAt }: Pending, at: string) =>
  duration(Math.max(Date.parse(nextAttemptAt) - Date.parse(at), 0))

/** Either the pool is exhausted, or the namespace's quota, for which the cluster reported figures. */
function shortageOf({ resource, requested, available }: Pending): string {
  if (resource === 'sandboxes') return 'every sandbox is in use or reserved for an earlier run'
  const figures = `it needs ${requested.toLocaleString('en')}, and ${available.toLocaleString('en')} are left`
  return `the quota of the namespace for ${visible(resource)} is used up (${figures})`
}
