import type { RunEnvelope } from '../../contracts/events.ts'
import type { Client } from '../../runtime/client/client.ts'
import { EXIT, type ExitStatus } from '../exit-status.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { Left } from './exits.ts'
import type { Gate, GateAnswer } from './gates.ts'
import { createSession } from './session.ts'

export interface FollowOptions {
  readonly terminal: Terminal
  readonly client: Client
  readonly runId: string
  /** The last sequence that was seen already. @default 0 */
  readonly after?: number
  readonly show: (runId: string, envelope: RunEnvelope) => void
  /** Who decides: a person here, somebody elsewhere, or this command by itself. */
  readonly decide: (gate: Gate) => 'ask' | 'watch' | GateAnswer
  /** What Ctrl-C means: a question whether to cancel, or to leave at once. */
  readonly onInterrupt: 'ask' | 'leave'
  /** Asks for the next turn when one has ended. */
  readonly asksForTurns?: boolean
  /** Return at the end of this turn. */
  readonly untilTurn?: string
  /** The service ends with this command, and the run with it. */
  readonly isEmbedded: boolean
  /** What to add to a command line so that it finds the service. */
  readonly suffix: string
}

export type Ending =
  | { readonly kind: 'done'; readonly state: 'succeeded' | 'failed' | 'cancelled'; readonly byUs: boolean }
  | { readonly kind: 'turn'; readonly state: 'completed' | 'failed' | 'cancelled' }
  | { readonly kind: 'left' }

/** Shows a run until it ends, asks the person at the terminal what the run asks, and listens to Ctrl-C. */
export async function followRun(options: FollowOptions): Promise<Ending> {
  const { client, runId } = options
  const session = createSession(options)
  using _interrupts = onInterrupt(session.interrupt)
  try {
    for await (const envelope of client.streamEvents(runId, {
      after: options.after ?? 0,
      signal: session.signal,
    })) {
      options.show(runId, envelope)
      session.handle(envelope.event)
      const ending = endingOf(envelope, options.untilTurn, session.hasCancelled())
      if (ending) return ending
    }
  } catch (error) {
    if (error instanceof Left) return { kind: 'left' }
    throw error
  } finally {
    session.close()
  }
  throw new Error(`the stream of ${runId} ended before the run`)
}

function endingOf({ event }: RunEnvelope, untilTurn: string | undefined, byUs: boolean): Ending | undefined {
  if (event.type === 'done') return { kind: 'done', state: event.data.state, byUs }
  if (event.type !== 'turn.ended' || untilTurn === undefined || event.data.turnId !== untilTurn)
    return undefined
  return { kind: 'turn', state: event.data.state }
}

/** What a script learns from how the following ended. */
export function exitStatusOfEnding(ending: Ending): ExitStatus {
  if (ending.kind === 'left') return EXIT.interrupted
  if (ending.kind === 'done' && ending.byUs && ending.state === 'cancelled') return EXIT.interrupted
  return ending.state === 'succeeded' || ending.state === 'completed' ? EXIT.ok : EXIT.runFailed
}
