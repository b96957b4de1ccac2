import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { AgentConfig } from '../../contracts/agents.ts'
import type { HostEvent } from '../../contracts/events.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import type { AgentDeps, AgentSession, CallError, TurnResult } from '../../runtime/agents/agent.ts'
import { createAgent } from '../../runtime/agents/registry.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { ToolCall, ToolDefinition } from '../../runtime/tools/tool.ts'
import { createToolRegistry } from '../../runtime/tools/tool-registry.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { type ModelServer, startModelServer } from '../fakes/model-server.ts'
import { GENEROUS_LIMITS } from './generous-limits.ts'

/** Tool definitions of a run with a shell, which every agent gets. */
export const definitions = (): readonly ToolDefinition[] =>
  createToolRegistry({
    toolbox: new MemoryToolbox(),
    settings: SandboxSettings.parse({}),
    shellAcceptable: true,
  }).definitions

export async function aStateDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'agent-state-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  return dir
}

/** A fake model server, closed after the test. */
export async function aModel(
  respond: Parameters<typeof startModelServer>[0]['respond'],
): Promise<ModelServer> {
  const server = await startModelServer({ respond })
  onTestFinished(() => server.close())
  return server
}

export const endpoint = (server: ModelServer): AgentConfig => ({
  kind: 'openaiCompatible',
  model: { name: 'fake-model', baseUrl: server.url },
})

export const ok = (content: string): ToolOutcome => ({ ok: true, content, facts: {} })

/** An agent, closed after the test, with the calls that it made. */
export async function anAgent(config: AgentConfig, deps: Partial<AgentDeps> = {}) {
  const calls: ToolCall[] = []
  const rejected: (ToolCall & CallError)[] = []
  const callTool = deps.callTool ?? (async () => ok('done'))
  const agent = await createAgent(config, {
    tools: definitions(),
    fetchToken: async () => 'secret-key-of-the-endpoint',
    fetchEgressToken: async () => 'a-token-of-the-egress-proxy',
    generation: 1,
    stateDir: await aStateDir(),
    limits: GENEROUS_LIMITS,
    log: silentLog,
    ...deps,
    rejectCall: async (call, error) => {
      rejected.push({ ...call, ...error })
      return { ok: false, ...error }
    },
    callTool: (call, signal) => {
      calls.push(call)
      return callTool(call, signal)
    },
  })
  onTestFinished(() => agent.close())
  return { agent, calls, rejected }
}

let turns = 0

/** Runs one turn and returns its events. */
export async function runTurn(
  agent: AgentSession,
  prompt = 'do it',
  signal: AbortSignal = new AbortController().signal,
): Promise<{ result: TurnResult; events: HostEvent[]; turnId: string }> {
  const events: HostEvent[] = []
  const turnId = `turn-${++turns}`
  const result = await agent.runTurn({ turnId, prompt, signal, emit: (event) => events.push(event) })
  return { result, events, turnId }
}

/** The joined text of the agent's deltas. */
export const streamed = (events: readonly HostEvent[]): string =>
  events.map((event) => (event.type === 'agent.message.delta' ? event.data.text : '')).join('')
