import { randomUUID } from 'node:crypto'
import type { CopilotSession, SessionEvent } from '@github/copilot-sdk'
import * as z from 'zod'
import type { ToolOutcome } from '../../../contracts/tools.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { AgentDeps, AgentSession, SessionFiles, Turn, TurnResult } from '../agent.ts'
import type { ModelWait } from '../model-waits.ts'
import { decodeMeta, encodeMeta } from '../session-meta.ts'
import { ANSWER_STOPPED, ANSWERS_TOO_LONG } from './answer-limit.ts'
import { type CopilotConfig, credentialOf } from './model-config.ts'
import { failed, onlyUnusable } from './model-failure.ts'
import { ModelRequests } from './model-requests.ts'
import { type RuntimeOptions, type RuntimeProcess, startRuntime } from './runtime-process.ts'
import { type SdkCall, sessionConfig, toSdkResult } from './session-config.ts'
import { MemorySessionFs } from './session-fs.ts'
import { EVENTS, wholeRecords } from './stored-events.ts'
import {
  type HandedCall,
  type PendingCall,
  pendingCallsIn,
  SuspendedTurn,
  suspendEvents,
} from './suspended-turn.ts'
import { TurnWatch } from './turn-watch.ts'
import type { UnusableCall } from './unusable-calls.ts'

const FILES_PREFIX = 'files/'
const Meta = z.strictObject({
  kind: z.literal('copilot'),
  sessionId: z.uuid(),
  turn: SuspendedTurn.optional(),
})

/** How often the runtime is asked to write its events before an export. It takes 0.1 s each time. */
const MAX_SAVES = 10

/** An agent that uses the GitHub Copilot SDK with our tools only. */
export async function createCopilotAgent(config: CopilotConfig, deps: AgentDeps): Promise<AgentSession> {
  const agent = new CopilotAgent(config, deps)
  if (!deps.opensWithFirstTurn) await agent.open()
  return agent
}

type Live = {
  readonly runtime: RuntimeProcess
  readonly session: CopilotSession
  /** The credential that the session was opened with. */
  readonly credential: string | undefined
}

/** The suspended turn of a restored session. */
type RestoredTurn = { readonly turn: SuspendedTurn; readonly calls: readonly PendingCall[] }

class CopilotAgent implements AgentSession {
  readonly #config: CopilotConfig
  readonly #deps: AgentDeps
  readonly #sessionId: string
  readonly #sessionFs: MemorySessionFs
  /** The open calls of the restored session, until a turn starts. */
  #suspended: RestoredTurn | undefined
  #live: Live | undefined
  #watch: TurnWatch | undefined
  #isClosed = false

  constructor(config: CopilotConfig, deps: AgentDeps) {
    const { sessionFiles } = deps
    this.#config = config
    this.#deps = deps
    const meta = sessionFiles && decodeMeta(Meta, sessionFiles)
    this.#sessionId = meta?.sessionId ?? randomUUID()
    this.#sessionFs = new MemorySessionFs(sessionFiles && this.#restore(filesOf(sessionFiles)))
    const calls = meta?.turn && pendingCallsIn(this.#sessionFs.textOf(EVENTS) ?? '', meta.turn)
    this.#suspended = meta?.turn && calls && { turn: meta.turn, calls }
  }

  /** Without events, the session was exported before its first turn and is created again. */
  #restore(files: SessionFiles): SessionFiles {
    const stored = files.get(EVENTS)
    if (!stored) return new Map()
    const { events, dropped } = wholeRecords(new TextDecoder().decode(stored))
    if (dropped > 0) this.#deps.log.warn('the session was damaged and is cut back', { dropped })
    return new Map([...files, [EVENTS, Buffer.from(events)]])
  }

  get suspendedTurn(): string | undefined {
    return this.#suspended?.turn.turnId
  }

  /**
   * Starts the runtime and opens a new session, or resumes the one in the session files. A session without events is
   * created again: the runtime writes its other files first, and may have been killed in between. A session keeps its
   * credential, so it is reopened if the credential was replaced.
   */
  async open(): Promise<CopilotSession> {
    if (this.#isClosed) throw new SandboxError('run_ended', 'the agent is closed')
    const model = await this.#config.open()
    const credential = credentialOf(model)
    const live = this.#live
    if (live && !live.runtime.hasExited() && live.credential === credential) return live.session
    this.#live = undefined
    await (live?.runtime.hasExited() ? live.runtime.kill() : live?.runtime.stop())
    const { stateDir, limits, log, tools, runtimeEnv: env = {} } = this.#deps
    const runtime = await startRuntime({
      ...{ stateDir, env, startMs: limits.startMs, log },
      ...present({ requestHandler: this.#requestHandler() }),
    })
    const config = sessionConfig({
      model,
      tools,
      charter: this.#config.charter,
      callTool: (call) => this.#callTool(call),
      workingDirectory: runtime.folder,
      sessionFs: this.#sessionFs,
    })
    try {
      const continuePendingWork = this.#suspended !== undefined
      const opening = this.#sessionFs.textOf(EVENTS)
        ? runtime.client.resumeSession(this.#sessionId, { ...config, continuePendingWork })
        : runtime.client.createSession({ ...config, sessionId: this.#sessionId })
      const session = await deadline('opening the session', limits.startMs, runtime.orExit(opening))
      this.#live = { runtime, session, credential }
      return session
    } catch (error) {
      await runtime.kill()
      throw notOpened(error)
    }
  }

  /** Sends the requests of one runtime to a model behind the egress proxy. */
  #requestHandler(): RuntimeOptions['requestHandler'] {
    const { proxy } = this.#config
    return proxy && ((gone) => new ModelRequests({ proxy, gone, onWait: (wait) => this.waitForModel(wait) }))
  }

  /** Reports no wait of a frozen run, because its events show the restriction. Returns a function that ends the wait. */
  waitForModel({ isFrozen, reason, isRepeated }: ModelWait): () => void {
    const { log, onModelWait } = this.#deps
    if (!isRepeated) log.warn('a request to the model waits', { reason })
    if (!isRepeated && !isFrozen)
      onModelWait?.(
        `The model cannot be called now. AgentHost repeats the request for up to 5 minutes: ${reason}`,
      )
    return this.#watch?.pause({ isFrozen }) ?? (() => undefined)
  }

  async runTurn(turn: Turn): Promise<TurnResult> {
    if (this.#watch) throw new SandboxError('conflict', 'a turn is under way')
    const { limits, generation } = this.#deps
    const watch = new TurnWatch({ turn, limits, config: this.#config, generation })
    this.#watch = watch
    try {
      return await this.#drive(watch)
    } catch (error) {
      this.#deps.log.error('a turn failed', { error })
      return failed(error instanceof SandboxError ? error.code : 'agent_failed', messageOf(error))
    } finally {
      watch.dispose()
      this.#watch = undefined
    }
  }

  /**
   * The runtime writes its files before it becomes idle, so between turns they are complete, unless it was killed: then the
   * last moments of the turn may be missing.
   */
  async exportSession(): Promise<SessionFiles> {
    if (!this.#watch) return this.#pack(this.#suspended?.turn)
    const { turnId } = this.#watch.turn
    const { events, ...calls } = await this.#suspend(this.#watch)
    return this.#pack({ turnId, ...calls }).set(FILES_PREFIX + EVENTS, Buffer.from(events))
  }

  #pack(turn: SuspendedTurn | undefined): Map<string, Uint8Array> {
    const meta = { kind: 'copilot', sessionId: this.#sessionId, ...present({ turn }) }
    const files = new Map([encodeMeta(meta)])
    for (const [path, bytes] of this.#sessionFs.export()) files.set(FILES_PREFIX + path, bytes)
    return files
  }

  /** In a turn, the runtime writes its events some time after they happened. */
  async #suspend(watch: TurnWatch) {
    const tools = new Set(this.#deps.tools.map(({ name }) => name))
    for (let saves = 0; saves < MAX_SAVES && this.#live && !watch.hasEnded; saves++) {
      const { client, orExit } = this.#live.runtime
      const saving = client.rpc.sessions.save({ sessionId: this.#sessionId })
      await deadline('saving the session', this.#deps.limits.startMs, orExit(saving))
      const suspended = suspendEvents(this.#sessionFs.textOf(EVENTS) ?? '', { handed: watch.handed, tools })
      if (suspended) return suspended
    }
    throw new SandboxError(
      'conflict',
      'the session cannot be exported here: the agent runtime has not written every open call. Try again later',
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#watch?.end({ state: 'cancelled' })
    await this.#live?.runtime.stop()
    this.#live = undefined
  }

  async #drive(watch: TurnWatch): Promise<TurnResult> {
    if (watch.turn.signal.aborted) return { state: 'cancelled' }
    const suspended = this.#suspended
    if (!watch.turn.resumes) await this.#dropOpenCalls()
    const session = await this.open()
    this.#suspended = undefined
    const unsubscribe = session.on((event) => this.#onEvent(event, session, watch))
    const sending = watch.turn.resumes
      ? this.#continue(suspended, session, watch)
      : session.send({ prompt: watch.turn.prompt.toWellFormed() })
    this.#live?.runtime.orExit(watch.ended).catch(() => watch.end(DIED))
    try {
      await Promise.race([sending, watch.ended])
      const result = await watch.ended
      await this.#rest(watch)
      return result
    } finally {
      unsubscribe()
    }
  }

  /** A runtime that is opened without the open calls of the session records them as interrupted. */
  async #dropOpenCalls(): Promise<void> {
    if (!this.#suspended) return
    this.#suspended = undefined
    await this.#live?.runtime.stop()
    this.#live = undefined
  }

  /** Makes the open calls again. The runtime asks the model when it has all results. */
  async #continue(
    suspended: RestoredTurn | undefined,
    session: CopilotSession,
    watch: TurnWatch,
  ): Promise<void> {
    if (!suspended) throw new SandboxError('conflict', 'the session has no open calls to continue')
    const { calls, turn } = suspended
    for (const call of turn.unusable) this.#orFail(watch, this.#reject(watch, call))
    for (const { toolCallId } of calls) watch.unusableCalls.handedOver(toolCallId)
    const repeat = async ({ requestId, arguments: args, ...call }: PendingCall) => {
      const result = toSdkResult(await this.#callTool({ ...call, args }))
      if (watch.hasEnded) return
      const { success } = await session.rpc.tools.handlePendingToolCall({ requestId, result })
      if (!success) throw new Error('the agent runtime no longer waits for a call that was repeated')
    }
    await Promise.all(calls.map(repeat))
  }

  #onEvent(event: SessionEvent, session: CopilotSession, watch: TurnWatch): void {
    const { limit, unusableCalls } = watch
    const unusable = unusableCalls.see(event)
    if (unusable && !limit.isStopping && !watch.hasEnded) this.#orFail(watch, this.#reject(watch, unusable))
    const { givenUp } = unusableCalls
    if (givenUp) void watch.rejected.then(() => watch.end(onlyUnusable(givenUp.answers, givenUp.last)))
    const step = watch.hasEnded ? undefined : limit.see(event)
    if (step === 'stop') this.#orFail(watch, this.#stopAnswer(session, watch))
    if (step === 'give_up') watch.end(failed('agent_failed', ANSWERS_TOO_LONG))
    if (step === 'ask_again') {
      watch.goOn()
      this.#orFail(watch, session.send({ prompt: ANSWER_STOPPED }))
    } else {
      watch.onEvent(event)
    }
  }

  async #stopAnswer(session: CopilotSession, watch: TurnWatch): Promise<void> {
    const { tool } = watch.limit
    await session.abort()
    if (tool === undefined) return
    await this.#reject(watch, { tool, arguments: null, error: TOO_LARGE })
  }

  #reject(watch: TurnWatch, { tool, arguments: args, error }: UnusableCall): Promise<ToolOutcome> {
    const call = { callId: watch.nextCallId(), tool, arguments: args }
    const rejecting = this.#deps.rejectCall(call, error, watch.turn.signal)
    watch.rejected = Promise.allSettled([watch.rejected, rejecting])
    return rejecting
  }

  /** Work of a turn outside its events. If it fails, the turn fails. */
  #orFail(watch: TurnWatch, work: Promise<unknown>): void {
    work.catch((error: unknown) => watch.end(failed('agent_failed', messageOf(error))))
  }

  /**
   * Makes sure that the runtime stops a turn that has ended here. If it does not stop in time it is killed, and the next
   * turn starts a new runtime from the session files.
   */
  async #rest(watch: TurnWatch): Promise<void> {
    const live = this.#live
    if (!live || live.runtime.hasExited() || watch.isResting) return
    const { log, limits } = this.#deps
    try {
      const stopping = Promise.all([live.session.abort(), watch.rested])
      await deadline('stopping the agent', limits.cancelMs, stopping)
    } catch (error) {
      log.warn('the agent runtime did not stop its turn and is killed', { error })
      await bestEffort(log, 'kill the agent runtime', () => live.runtime.kill())
    }
  }

  async #callTool({
    tool,
    args,
    toolCallId,
    signal,
    callId,
  }: SdkCall & { callId?: string }): Promise<ToolOutcome> {
    const watch = this.#watch
    if (!watch || watch.turn.signal.aborted) return NO_TURN
    // The complete answer arrived before the runtime received the stop request.
    if (watch.limit.isStopping) return { ok: false, ...TOO_LARGE }
    const both = AbortSignal.any([watch.turn.signal, ...(signal ? [signal] : [])])
    const call = { callId: callId ?? watch.nextCallId(), tool, arguments: args ?? {} }
    const handed: HandedCall = { callId: call.callId, toolCallId }
    watch.handed.push(handed)
    try {
      handed.outcome = await watch.whileCallIsOpen(() => this.#deps.callTool(call, both))
      watch.hasReported ||= tool === 'report_outcome' && handed.outcome.ok
      return handed.outcome
    } catch (error) {
      // A fault of the host. The model cannot react to it, so the turn ends.
      this.#deps.log.error('a tool call failed', { error, callId: call.callId })
      watch.end(failed(error instanceof SandboxError ? error.code : 'agent_failed', messageOf(error)))
      return { ok: false, code: 'internal', message: 'The call could not be carried out' }
    }
  }
}

const notOpened = (cause: unknown) =>
  new SandboxError('configure_failed', `The agent session cannot be opened: ${messageOf(cause)}`, { cause })

const TOO_LARGE = { code: 'arguments_too_large', message: ANSWER_STOPPED }

const DIED = failed('agent_failed', 'The agent runtime ended in mid-turn')

const NO_TURN: ToolOutcome = { ok: false, code: 'cancelled', message: 'The turn has ended' }

const filesOf = (files: SessionFiles): SessionFiles =>
  new Map(
    [...files]
      .filter(([path]) => path.startsWith(FILES_PREFIX))
      .map(([path, bytes]) => [path.slice(FILES_PREFIX.length), bytes]),
  )
