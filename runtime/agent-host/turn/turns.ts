import type { HostEvent } from '../../../contracts/events.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Outbox } from '../outbox.ts'

export type TurnEnd = Omit<Extract<HostEvent, { type: 'turn.ended' }>['data'], 'turnId'>

export type HostTurn = {
  readonly id: string
  readonly prompt: string
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
  signal: AbortSignal
  emit: (event: HostEvent) => Promise<void>
}) => Promise<TurnEnd>

/**
 * The turns of this sandbox by the caller's id. Repeating an id does not start a second turn. A turn continues when the
 * client that started it disconnects.
 */
export function createTurns(outbox: Outbox, runTurn: RunTurn) {
  const turns = new Map<string, HostTurn>()
  let active: HostTurn | undefined

  async function drive(turnId: string, prompt: string, signal: AbortSignal): Promise<TurnEnd> {
    const emit = (event: HostEvent) => outbox.emit(event, { taskId: turnId })
    await emit({ type: 'turn.started', data: { turnId } })
    const end = await runTurn({ turnId, prompt, signal, emit }).catch(
      (error): TurnEnd => ({ state: 'failed', code: 'agent_failed', message: messageOf(error) }),
    )
    const reported: TurnEnd = signal.aborted ? { state: 'cancelled' } : end
    await emit({ type: 'turn.ended', data: { turnId, ...reported } })
    return reported
  }

  return {
    /** Starts a turn, or returns the existing turn with this id. Throws `conflict` while another turn is running. */
    startOrFollow(turnId: string, prompt: string): HostTurn {
      const known = turns.get(turnId)
      if (known?.prompt === prompt) return known
      if (known) throw new SandboxError('conflict', `turn ${turnId} was started with another prompt`)
      if (active) throw new SandboxError('conflict', `turn ${active.id} is still working`)
      const stop = new AbortController()
      const startedAfter = outbox.lastSequence
      const ended = drive(turnId, prompt, stop.signal)
      const turn: HostTurn = {
        id: turnId,
        prompt,
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
