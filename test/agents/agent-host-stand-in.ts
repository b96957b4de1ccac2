import { createAgent } from '../../runtime/agents/registry.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { GENEROUS_LIMITS } from './generous-limits.ts'

/** A program that opens an agent and runs a turn. Tests kill it to check that no process is left. */
const [baseUrl = '', stateDir = ''] = process.argv.slice(2)
const agent = await createAgent(
  { kind: 'openaiCompatible', model: { name: 'fake-model', baseUrl } },
  {
    tools: [],
    callTool: async () => ({ ok: true, content: '', facts: {} }),
    rejectCall: async (_call, error) => ({ ok: false, ...error }),
    fetchToken: async () => undefined,
    fetchEgressToken: async () => 'unused',
    generation: 1,
    stateDir,
    limits: GENEROUS_LIMITS,
    log: silentLog,
  },
)
await agent.runTurn({
  turnId: 'turn',
  prompt: 'hello',
  signal: new AbortController().signal,
  emit: () => undefined,
})
