import type { RunEnvelope } from '../../contracts/events.ts'
import type { Client } from '../../runtime/client/client.ts'
import type { Terminal } from '../terminal/terminal.ts'
import type { Gate, GateAnswer } from './gates.ts'

export interface FollowOptions {
  readonly terminal: Terminal
  readonly client: Client
  readonly runId: string
  /** Skip events up to this sequence. @default 0 */
  readonly after?: number
  readonly show: (runId: string, envelope: RunEnvelope) => void
  /** Decides a request: `ask` the person here, `watch` until it is decided elsewhere, or decide at once. */
  readonly decide: (gate: Gate) => 'ask' | 'watch' | GateAnswer
  /** On Ctrl-C, ask whether to cancel the run, or stop following at once. */
  readonly onInterrupt: 'ask' | 'leave'
  /** Ask for the next prompt after each turn. */
  readonly asksForTurns?: boolean
  /** Return when this turn ends. */
  readonly untilTurn?: string
  /** The service was started for this command and stops with it. */
  readonly isEmbedded: boolean
  /** Option to append to printed command lines, so that they reach the same service. */
  readonly suffix: string
}
