import { expect, it, onTestFinished } from 'vitest'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { startCopilotService } from '../fakes/copilot-service.ts'
import { textOf } from '../fakes/model-server.ts'
import { aModel, anAgent, endpoint, runTurn } from './agent-rig.ts'
import { childPids } from './children.ts'

const bearers = (requests: readonly { headers: Record<string, unknown> }[]) =>
  requests.map(({ headers }) => headers['authorization'])

it('continues the same conversation with a replaced GitHub token', async () => {
  const service = await startCopilotService({ respond: (_request, index) => ({ text: `answer ${index}` }) })
  onTestFinished(() => service.close())
  let token = 'gho_the-first-token-of-ada-0123456789abcdef'
  const { agent } = await anAgent(
    { kind: 'copilot', model: 'gpt-fake' },
    { fetchToken: async () => token, runtimeEnv: service.env },
  )

  await runTurn(agent, 'remember the word heron')
  token = 'gho_the-second-token-of-ada-0123456789abcde'
  const { result } = await runTurn(agent, 'which word?')

  expect(result).toEqual({ state: 'completed' })
  expect(new Set(bearers(service.requests.slice(0, 1)))).toEqual(
    new Set(['Bearer gho_the-first-token-of-ada-0123456789abcdef']),
  )
  expect(service.requests.at(-1)?.headers['authorization']).toBe(`Bearer ${token}`)
  const told = service.requests.at(-1)?.messages.map((message) => textOf(message)) ?? []
  expect(told.some((text) => text.includes('remember the word heron'))).toBe(true)
})

it('runs the first turn with a token that was replaced before it', async () => {
  const service = await startCopilotService({ respond: () => ({ text: 'yes' }) })
  onTestFinished(() => service.close())
  let token = 'gho_the-first-token-of-ada-0123456789abcdef'
  const { agent } = await anAgent(
    { kind: 'copilot', model: 'gpt-fake' },
    { fetchToken: async () => token, runtimeEnv: service.env },
  )

  token = 'gho_the-second-token-of-ada-0123456789abcde'
  const { result } = await runTurn(agent)

  expect(result).toEqual({ state: 'completed' })
  expect(new Set(bearers(service.requests))).toEqual(new Set([`Bearer ${token}`]))
})

it('keeps its process while the credential is the same', async () => {
  const server = await aModel(() => ({ text: 'yes' }))
  const before = await childPids()
  const { agent } = await anAgent(endpoint(server))
  const started = (await childPids()).filter((pid) => !before.includes(pid))

  await runTurn(agent)
  await runTurn(agent)
  const left = (await childPids()).filter((pid) => !before.includes(pid))

  expect(started.length).toBeGreaterThan(0)
  expect(left).toEqual(started)
})

it('ends a turn with the error of the credential', async () => {
  const server = await aModel(() => ({ text: 'yes' }))
  let isRevoked = false
  const { agent } = await anAgent(endpoint(server), {
    fetchToken: async () => {
      if (isRevoked) throw new SandboxError('credential_forbidden', 'the vault answered 403')
      return 'key'
    },
  })
  await runTurn(agent)

  isRevoked = true
  const { result } = await runTurn(agent)
  isRevoked = false
  const again = await runTurn(agent)

  expect(result).toEqual({ state: 'failed', code: 'credential_forbidden', message: 'the vault answered 403' })
  expect(again.result).toEqual({ state: 'completed' })
})

it('shows the newest token of the egress proxy with each request of kind foundry, and asks for no other', async () => {
  const server = await aModel((_request, index) =>
    index === 0 ? { toolCalls: [{ name: 'list_files', arguments: {} }] } : { text: 'done' },
  )
  const model = { name: 'fake-model', baseUrl: server.url, server: 'https://aw.openai.azure.com/openai/v1' }
  let count = 0
  let isAsked = false
  const { agent } = await anAgent(
    { kind: 'foundry', model },
    {
      fetchEgressToken: async () => `token-${++count}`,
      fetchToken: async () => {
        isAsked = true
        return undefined
      },
    },
  )

  const { result } = await runTurn(agent)

  expect(result).toEqual({ state: 'completed' })
  const sent = bearers(server.requests)
  expect(sent).toHaveLength(2)
  expect(new Set(sent).size).toBe(2)
  for (const bearer of sent) expect(bearer).toMatch(/^Bearer token-\d+$/)
  expect(isAsked).toBe(false)
})

it('does not create an agent of kind foundry that would send its token to the resource itself', async () => {
  const url = 'https://aw.openai.azure.com/openai/v1'
  const model = { name: 'fake-model', baseUrl: url, server: url }

  await expect(anAgent({ kind: 'foundry', model })).rejects.toMatchObject({ code: 'configure_failed' })
})
