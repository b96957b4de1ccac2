import type { RunEventType } from '../../contracts/events.ts'
import { isFrozen, queueReason, queueWords } from '../view/queue-words.ts'
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

/**
 * Shows why a run waits in the queue. At a terminal, the progress line has its position. Elsewhere, one line names the
 * restriction for which the run does not start.
 */
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
  const name = async () => {
    const run = await client.readRun(runId)
    if (run.queue && isFrozen(run)) terminal.note(`The run ${queueReason(run)}.`)
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
      if (!terminal.isInteractive && type === 'run.queued') void name().catch(() => undefined)
      if (terminal.isInteractive && MAY_QUEUE.has(type))
        timer = setInterval(() => void show().catch(() => undefined), EVERY_MS)
    },
    stop,
  }
}
