import { onTestFinished } from 'vitest'
import type { AgentConfig } from '../../contracts/agents.ts'
import type { HostEvent } from '../../contracts/events.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import type { AgentDeps, AgentSession, SessionFiles, TurnResult } from '../../runtime/agents/agent.ts'
import type { ToolCall } from '../../runtime/tools/tool.ts'
import type { ModelMessage, ModelRequest } from '../fakes/model-server.ts'
import { textOf } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { anAgent } from './agent-rig.ts'

/** Calls that stay open until the test resolves them. */
export class Desk {
  readonly calls: ToolCall[] = []
  readonly #waiting = new Map<string, (outcome: ToolOutcome) => void>()
  readonly #answers: Partial<Record<string, ToolOutcome>>

  /** @param answers results that the tools return immediately, by tool name */
  constructor(answers: Partial<Record<string, ToolOutcome>> = {}) {
    this.#answers = answers
  }

  readonly callTool: AgentDeps['callTool'] = (call, signal) => {
    this.calls.push(call)
    const known = this.#answers[call.tool]
    if (known) return Promise.resolve(known)
    const { promise, resolve, reject } = Promise.withResolvers<ToolOutcome>()
    this.#waiting.set(call.callId, resolve)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    return promise
  }

  answer(callId: string, outcome: ToolOutcome): void {
    const resolve = this.#waiting.get(callId)
    if (!resolve) throw new Error(`no call ${callId} is open`)
    this.#waiting.delete(callId)
    resolve(outcome)
  }

  /** The id of the call of this tool. The agent runtime hands the calls of one answer over in any order. */
  idOf(tool: string): string {
    const call = this.calls.find((one) => one.tool === tool)
    if (!call) throw new Error(`there is no call of ${tool}`)
    return call.callId
  }

  async waitsFor(...tools: readonly string[]): Promise<void> {
    await until(`${tools.join(' and ')} wait`, () =>
      tools.every((tool) => this.calls.some((call) => call.tool === tool && this.#waiting.has(call.callId))),
    )
  }
}

/** Starts a turn without waiting for its end. */
export function startTurn(agent: AgentSession, turn: { turnId: string; prompt?: string; resumes?: boolean }) {
  const events: HostEvent[] = []
  const cancel = new AbortController()
  onTestFinished(() => cancel.abort())
  const result: Promise<TurnResult> = agent.runTurn({
    prompt: 'do it',
    ...turn,
    signal: cancel.signal,
    emit: (event) => events.push(event),
  })
  return { result, events, cancel: () => cancel.abort() }
}

export type Suspended = {
  readonly sessionFiles: SessionFiles
  readonly desk: Desk
  readonly agent: AgentSession
}

/** Runs a turn until the named tools wait, and exports the session there. */
export async function suspend(
  config: AgentConfig,
  { waiting, answers }: { waiting: readonly string[]; answers?: Partial<Record<string, ToolOutcome>> },
): Promise<Suspended> {
  const desk = new Desk(answers)
  const { agent } = await anAgent(config, { callTool: desk.callTool })
  startTurn(agent, { turnId: 't1' })
  await desk.waitsFor(...waiting)
  const sessionFiles = await agent.exportSession()
  return { sessionFiles, desk, agent }
}

/** The agent of a later sandbox of the same run. */
export async function restore(
  config: AgentConfig,
  sessionFiles: SessionFiles,
  { generation = 2, answers }: { generation?: number; answers?: Partial<Record<string, ToolOutcome>> } = {},
) {
  const desk = new Desk(answers)
  const { agent, rejected } = await anAgent(config, { callTool: desk.callTool, sessionFiles, generation })
  return { agent, desk, rejected }
}

/**
 * The conversation of a request, one line a message. Throws if a call has no result or two, or if a result has no call:
 * real model servers refuse such a request.
 */
export function conversationOf(request: ModelRequest | undefined): string[] {
  const messages = request?.messages ?? []
  const calls = messages.flatMap((message) => message.tool_calls ?? []).map(({ id }) => id)
  const results = messages.flatMap(({ tool_call_id }) => tool_call_id ?? [])
  if (calls.toSorted().join() !== results.toSorted().join())
    throw new Error(`the calls ${calls.join()} have the results ${results.join()}`)
  return messages.filter(({ role }) => role !== 'system').map(lineOf)
}

function lineOf(message: ModelMessage): string {
  // The runtime puts the time before a prompt.
  const text = textOf(message).replace(/^<current_datetime>.*<\/current_datetime>\s*/, '')
  const calls = (message.tool_calls ?? []).map((call) => ` ${call.id}`).join('')
  return `${message.role}${message.tool_call_id ? ` ${message.tool_call_id}` : calls}: ${text}`
}
