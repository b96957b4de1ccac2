import type { RunEnvelope } from '../../contracts/events.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { EXIT, type ExitStatus } from '../exit-status.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import { Left } from './exits.ts'
import type { FollowOptions } from './follow-options.ts'
import { createQueueProgress } from './queue-progress.ts'
import { createSession } from './session.ts'

export type Ending =
  | { readonly kind: 'done'; readonly state: 'succeeded' | 'failed' | 'cancelled'; readonly byUs: boolean }
  | { readonly kind: 'turn'; readonly state: 'completed' | 'failed' | 'cancelled' }
  | { readonly kind: 'left' }

/** A single broken connection is not worth a message. */
const TOLD_BREAKS = 3
const AWAY_WORDS = 'The service does not respond. Retrying for half a minute.'

/** Shows a run until it ends, asks the person its questions, and handles Ctrl-C. */
export async function followRun(options: FollowOptions): Promise<Ending> {
  const { client, runId, terminal } = options
  const session = createSession(options)
  const queue = createQueueProgress(options)
  let last = options.after ?? 0
  let breaks = 0
  using _interrupts = onInterrupt(session.interrupt)
  try {
    for await (const envelope of client.streamEvents(runId, {
      after: last,
      signal: session.signal,
      onBreak: () => {
        breaks += 1
        if (breaks === TOLD_BREAKS) terminal.note(AWAY_WORDS)
      },
    })) {
      last = envelope.sequence
      breaks = 0
      options.show(runId, envelope)
      queue.follow(envelope.event.type)
      session.handle(envelope.event)
      const ending = endingOf(envelope, options.untilTurn, session.hasCancelled())
      if (ending) return ending
    }
  } catch (error) {
    if (error instanceof Left) return { kind: 'left' }
    throw isAway(error) ? away(options, last, error) : error
  } finally {
    queue.stop()
    session.close()
  }
  throw new Error(`the stream of ${runId} ended before the run`)
}

const isAway = (error: unknown) => error instanceof SandboxError && error.code === 'unavailable'

/** The service did not come back. The hint says how to continue later. */
const away = ({ runId, suffix, isEmbedded }: FollowOptions, last: number, cause: unknown): CliError =>
  new CliError('The service no longer responds.', {
    status: EXIT.unreachable,
    cause,
    hint: isEmbedded
      ? `See the stored events: agentweaver show ${runId}`
      : `Continue when it is back: agentweaver logs -f ${runId} --after ${last}${suffix}`,
  })

function endingOf({ event }: RunEnvelope, untilTurn: string | undefined, byUs: boolean): Ending | undefined {
  if (event.type === 'done') return { kind: 'done', state: event.data.state, byUs }
  if (event.type !== 'turn.ended' || untilTurn === undefined || event.data.turnId !== untilTurn)
    return undefined
  return { kind: 'turn', state: event.data.state }
}

/** The exit status for a script, from how following the run ended. */
export function exitStatusOfEnding(ending: Ending): ExitStatus {
  if (ending.kind === 'left') return EXIT.interrupted
  if (ending.kind === 'done' && ending.byUs && ending.state === 'cancelled') return EXIT.interrupted
  return ending.state === 'succeeded' || ending.state === 'completed' ? EXIT.ok : EXIT.runFailed
}
