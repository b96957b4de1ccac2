import { readdir } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { CONTROL_TOOL_NAMES, TOOL_NAMES } from '../../contracts/tools.ts'
import { textOf } from '../fakes/model-server.ts'
import { aModel, anAgent, aStateDir, endpoint, ok, runTurn, streamed } from './agent-rig.ts'

describe('the Copilot agent with a fake model server', () => {
  it('offers the model only our tools and our system prompt', async () => {
    const server = await aModel(() => ({ text: 'Hello.' }))
    const { agent } = await anAgent({
      ...endpoint(server),
      kind: 'openaiCompatible',
      model: { name: 'fake-model', baseUrl: server.url },
      charter: 'Prefer small commits.',
    })

    await runTurn(agent, 'say hello')

    const [request] = server.requests
    const offered = request?.tools.map((tool) => tool.function.name) ?? []
    expect(offered.toSorted()).toEqual([...TOOL_NAMES, ...CONTROL_TOOL_NAMES].toSorted())
    expect(request?.messages.map((message) => message.role)).toEqual(['system', 'user'])
    expect(textOf(request?.messages[0])).toContain('Prefer small commits.')
    expect(textOf(request?.messages[0])).not.toMatch(/Copilot|bash/)
    expect(request?.headers['authorization']).toBe('Bearer secret-key-of-the-endpoint')
  })

  it("streams the model's text and counts its tokens", async () => {
    const server = await aModel(() => ({ text: 'One sentence that is long enough.' }))
    const { agent } = await anAgent(endpoint(server))

    const { result, events } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(events.filter((event) => event.type === 'agent.message.delta').length).toBeGreaterThan(1)
    expect(streamed(events)).toBe('One sentence that is long enough.')
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'agent.message',
        data: expect.objectContaining({ text: 'One sentence that is long enough.' }),
      }),
    )
    expect(events).toContainEqual({
      type: 'agent.turn.usage',
      data: { model: 'fake-model', inputTokens: 11, outputTokens: 7 },
    })
  })

  it('passes calls to the host and their outcomes to the model, with our own ids', async () => {
    const server = await aModel((_request, index) =>
      index < 2
        ? {
            toolCalls: [
              { id: 'same-id', name: ['read_file', 'create'][index] ?? '', arguments: { path: 'a' } },
            ],
          }
        : { text: 'finished' },
    )
    const { agent, calls } = await anAgent(endpoint(server), {
      callTool: async (call) => ok(`ran ${call.tool}`),
    })

    const { result, turnId } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(calls).toEqual([
      { callId: `${turnId}.1`, tool: 'read_file', arguments: { path: 'a' } },
      { callId: `${turnId}.2`, tool: 'create', arguments: { path: 'a' } },
    ])
    expect(server.requests.slice(1).map((request) => textOf(request.messages.at(-1)))).toEqual([
      'ran read_file',
      'ran create',
    ])
  })

  it('reports a denied call to the model, and continues', async () => {
    const server = await aModel((_request, index) =>
      index === 0
        ? { toolCalls: [{ name: 'run_command', arguments: { command: 'rm -rf /' } }] }
        : { text: 'I see.' },
    )
    const { agent } = await anAgent(endpoint(server), {
      callTool: async () => ({ ok: false, code: 'denied', message: 'A person refused: not today' }),
    })

    const { result } = await runTurn(agent)

    expect(result).toEqual({ state: 'completed' })
    expect(textOf(server.requests[1]?.messages.at(-1))).toBe('denied: A person refused: not today')
  })

  it('refuses a native tool that the model calls anyway', async () => {
    const stateDir = await aStateDir()
    const marker = `${stateDir}/native-tool-ran`
    const server = await aModel((_request, index) => {
      if (index === 0)
        return { toolCalls: [{ name: 'bash', arguments: { command: `touch ${marker}`, description: 'x' } }] }
      if (index === 1) return { toolCalls: [{ name: 'create', arguments: { path: marker, file_text: 'x' } }] }
      return { text: 'over' }
    })
    const { agent, calls } = await anAgent(endpoint(server), { stateDir })

    await runTurn(agent)

    expect(textOf(server.requests[1]?.messages.at(-1))).toContain("Tool 'bash' does not exist")
    expect(calls.map((call) => call.tool)).toEqual(['create'])
    expect(await readdir(stateDir)).not.toContain('native-tool-ran')
  })
})
