import { readFile } from 'node:fs/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CONTROL_TOOL_NAMES, TOOL_NAMES } from '../../contracts/tools.ts'
import { startCopilotService } from '../fakes/copilot-service.ts'
import type { ModelReply } from '../fakes/model-server.ts'
import { anAgent, runTurn, streamed } from './agent-rig.ts'
import { childPids } from './children.ts'

const TOKEN = 'gho_0123456789abcdefghijABCDEFGHIJ012345'
const COPILOT = { kind: 'copilot', model: 'gpt-fake' } as const

async function aService(reply: ModelReply) {
  const service = await startCopilotService({ respond: () => reply })
  onTestFinished(() => service.close())
  return service
}

describe('the Copilot agent with a GitHub token', () => {
  it('authenticates to the Copilot service with the token, and offers only our tools', async () => {
    const service = await aService({ text: 'Hello from Copilot.' })
    const { agent } = await anAgent(COPILOT, { fetchToken: async () => TOKEN, runtimeEnv: service.env })

    const { result, events } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(streamed(events)).toBe('Hello from Copilot.')
    expect(service.requests.length).toBeGreaterThan(0)
    for (const request of service.requests) {
      expect(request.headers['authorization']).toBe(`Bearer ${TOKEN}`)
      const offered = request.tools.map((tool) => tool.function.name).toSorted()
      expect(offered).toEqual([...TOOL_NAMES, ...CONTROL_TOOL_NAMES].toSorted())
    }
  })

  it('sends the token to no other service: no MCP server, no telemetry', async () => {
    const service = await aService({ text: 'Hello.' })
    const { agent } = await anAgent(COPILOT, { fetchToken: async () => TOKEN, runtimeEnv: service.env })

    await runTurn(agent)
    await agent.close()

    const known = /^(?:GET \/copilot_internal\/user|GET \/models|POST \/chat\/completions)/
    expect(service.paths.filter((path) => !known.test(path))).toEqual([])
  })

  it('keeps the token out of the environment and the arguments of its process', async () => {
    const before = await childPids()
    const service = await aService({ text: 'Hello.' })
    await anAgent(COPILOT, { fetchToken: async () => TOKEN, runtimeEnv: service.env })
    const [pid] = (await childPids()).filter((child) => !before.includes(child))

    const environment = await readFile(`/proc/${pid}/environ`, 'utf8')
    const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8')

    expect(environment).toContain('COPILOT_API_URL')
    expect(environment + commandLine).not.toContain(TOKEN)
  })

  it('cannot be created without a token', async () => {
    await expect(anAgent(COPILOT, { fetchToken: async () => undefined })).rejects.toMatchObject({
      code: 'credential_absent',
    })
  })

  it('reports that the token is not valid', async () => {
    const service = await aService({ status: 401, body: { error: { message: 'bad credentials' } } })
    const { agent } = await anAgent(COPILOT, { fetchToken: async () => TOKEN, runtimeEnv: service.env })

    const { result } = await runTurn(agent)

    expect(result).toMatchObject({ state: 'failed', code: 'agent_failed' })
    expect(result).toMatchObject({ message: expect.stringContaining('check the GitHub token') })
  })
})
