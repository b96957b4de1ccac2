import type { HostEvent } from '../../../contracts/events.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Outbox } from '../outbox.ts'

export type TurnEnd = Omit<Extract<HostEvent, { type: 'turn.ended' }>['data'], 'turnId'>

export type HostTurn = {
  readonly id: string
  readonly prompt: string
  readonly resumes: boolean
  state: 'working' | TurnEnd['state']
  /** Sequence before the turn's first event, from which a stream of this turn starts. */
  readonly startedAfter: number
  /** Sequence of the last event, set when the turn has ended. */
  endedAt?: number
  readonly ended: Promise<TurnEnd>
  readonly cancel: () => void
}

export type RunTurn = (turn: {
  turnId: string
  prompt: string
  resumes: boolean
  signal: AbortSignal
  emit: (event: HostEvent) => Promise<void>
}) => Promise<TurnEnd>

/** A turn as the caller asks for it. */
export type RequestedTurn = {
  readonly id: string
  readonly prompt: string
  /** Continues the turn in which the restored session was exported. */
  readonly resumes: boolean
}

export type TurnsDeps = {
  readonly runTurn: RunTurn
  /** The turn that the agent can continue. */
  readonly suspendedTurn: () => string | undefined
}

/**
 * The turns of this sandbox by the caller's id. Repeating an id does not start a second turn. A turn continues when the
 * client that started it disconnects.
 */
export function createTurns(outbox: Outbox, { runTurn, suspendedTurn }: TurnsDeps) {
  const turns = new Map<string, HostTurn>()
  let active: HostTurn | undefined

  async function drive(turn: RequestedTurn, signal: AbortSignal): Promise<TurnEnd> {
    const { id: turnId, prompt, resumes } = turn
    const emit = (event: HostEvent) => outbox.emit(event, { taskId: turnId })
    // The start of a turn that resumes was reported by an earlier sandbox.
    if (!resumes) await emit({ type: 'turn.started', data: { turnId } })
    const end = await runTurn({ turnId, prompt, resumes, signal, emit }).catch(
      (error): TurnEnd => ({ state: 'failed', code: 'agent_failed', message: messageOf(error) }),
    )
    const reported: TurnEnd = signal.aborted ? { state: 'cancelled' } : end
    await emit({ type: 'turn.ended', data: { turnId, ...reported } })
    return reported
  }

  return {
    /**
     * Starts a turn, or returns the existing turn with this id. Throws `conflict` while another turn is running, and for a
     * turn to resume that is not in the session.
     */
    startOrFollow(requested: RequestedTurn): HostTurn {
      const { id: turnId, prompt, resumes } = requested
      const known = turns.get(turnId)
      // A new driver of the run cannot always tell that the turn was resumed.
      if (known?.prompt === prompt) return known
      if (known) throw new SandboxError('conflict', `turn ${turnId} was started with another prompt`)
      if (active) throw new SandboxError('conflict', `turn ${active.id} is still working`)
      if (resumes && suspendedTurn() !== turnId)
        throw new SandboxError(
          'conflict',
          `turn ${turnId} cannot be resumed: the session does not hold its open calls`,
        )
      const stop = new AbortController()
      const startedAfter = outbox.lastSequence
      const ended = drive(requested, stop.signal)
      const turn: HostTurn = {
        id: turnId,
        prompt,
        resumes,
        state: 'working',
        startedAfter,
        ended,
        cancel: () => stop.abort(),
      }
      turns.set(turnId, turn)
      active = turn
      ended.then(
        (end) => {
          turn.state = end.state
          turn.endedAt = outbox.lastSequence
          active = undefined
        },
        () => undefined,
      )
      return turn
    },

    get: (turnId: string): HostTurn | undefined => turns.get(turnId),
    list: (): HostTurn[] => [...turns.values()],
    get active(): HostTurn | undefined {
      return active
    },
  }
}

export type Turns = ReturnType<typeof createTurns>
