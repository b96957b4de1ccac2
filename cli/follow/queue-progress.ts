import type { RunEventType } from '../../contracts/events.ts'
import { queueReason, queueWords } from '../view/queue-words.ts'
import type { FollowOptions } from './follow-options.ts'

const EVERY_MS = 2_000

/** After these events a run may wait in the queue. Its stream is silent then. */
const MAY_QUEUE: ReadonlySet<RunEventType> = new Set([
  'run.queued',
  'policy.settings_trusted',
  'policy.settings_ignored',
  'subtask.pending_capacity',
  'run.interrupted',
])

/** Shows the position of a run that waits in the queue in the progress line. Reads it only at a terminal. */
export function createQueueProgress({
  client,
  runId,
  terminal,
}: Pick<FollowOptions, 'client' | 'runId' | 'terminal'>) {
  let timer: NodeJS.Timeout | undefined
  const stop = () => {
    clearInterval(timer)
    timer = undefined
  }
  const show = async () => {
    const run = await client.readRun(runId)
    if (run.queue && timer)
      terminal.progress.update(`in the queue: ${queueWords(run.queue, Date.now())}; ${queueReason(run)}`)
  }
  return {
    follow(type: RunEventType): void {
      stop()
      // The next round may succeed, and the stream reports a service that is away.
      if (terminal.isInteractive && MAY_QUEUE.has(type))
        timer = setInterval(() => void show().catch(() => undefined), EVERY_MS)
    },
    stop,
  }
}
