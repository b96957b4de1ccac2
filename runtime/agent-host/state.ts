import type { HostState } from '../../contracts/configure.ts'
import { SandboxError } from '../kit/errors.ts'
import type { RunSession } from './session/run-session.ts'
import type { RunnerLink } from './toolbox/runner-link.ts'

/** The run that this sandbox serves, known from the first accepted `/configure`. */
export type Taken = {
  readonly runId: string
  readonly generation: number
  readonly turnBearerToken: string
  /** Receives the session archive, if `/configure` announced one. */
  readonly awaitedSession?: AwaitedSession
}

export type AwaitedSession = {
  readonly announced: { readonly sha256: string; readonly bytes: number }
  readonly arrived: (archive: Uint8Array) => void
}

export type HostStatus =
  | { readonly state: 'starting' }
  | { readonly state: 'standby'; readonly toolbox: RunnerLink }
  | { readonly state: 'configuring'; readonly toolbox: RunnerLink; readonly taken: Taken }
  | { readonly state: 'ready'; readonly taken: Taken; readonly session: RunSession }
  | { readonly state: 'failed' | 'leaving'; readonly reason: string; readonly taken?: Taken }

/** The state of this process. State and data change in one assignment, and the state never goes back. */
export function createHostStateMachine() {
  let status: HostStatus = { state: 'starting' }
  const listeners = new Set<(state: HostState) => void>()
  const enter = (next: HostStatus) => {
    status = next
    for (const listener of listeners) listener(next.state)
  }
  const takenSoFar = () => ('taken' in status && status.taken ? { taken: status.taken } : {})
  const expectState = (expected: HostState) => {
    if (status.state !== expected)
      throw new SandboxError('conflict', `AgentHost is ${status.state}, not ${expected}`)
  }

  return {
    get status(): HostStatus {
      return status
    },
    standby(toolbox: RunnerLink): void {
      expectState('starting')
      enter({ state: 'standby', toolbox })
    },
    /** Assigns the sandbox to a run, once. Returns undefined if it is assigned already. */
    take(taken: Taken): RunnerLink | undefined {
      if (status.state !== 'standby') return undefined
      const { toolbox } = status
      enter({ state: 'configuring', toolbox, taken })
      return toolbox
    },
    ready(session: RunSession): void {
      if (status.state === 'leaving') throw new SandboxError('sandbox_lost', status.reason)
      if (status.state !== 'configuring') {
        throw new SandboxError('conflict', `AgentHost is ${status.state}, not configuring`)
      }
      enter({ state: 'ready', taken: status.taken, session })
    },
    fail(reason: string): void {
      if (status.state === 'failed' || status.state === 'leaving') return
      enter({ state: 'failed', reason, ...takenSoFar() })
    },
    /** Later failures are consequences of leaving, so they do not change the state any more. */
    leave(reason: string): void {
      if (status.state !== 'leaving') enter({ state: 'leaving', reason, ...takenSoFar() })
    },
    onChange(listener: (state: HostState) => void): void {
      listeners.add(listener)
    },
  }
}

export type HostStateMachine = ReturnType<typeof createHostStateMachine>
