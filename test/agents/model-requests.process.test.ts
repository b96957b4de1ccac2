import { expect, it } from 'vitest'
import type { AgentConfig } from '../../contracts/agents.ts'
import { EGRESS_REASON_HEADER, EGRESS_RULE_HEADER } from '../../contracts/egress.ts'
import { ModelRequests } from '../../runtime/agents/copilot/model-requests.ts'
import { type ModelWait, PATIENCE_MS } from '../../runtime/agents/model-waits.ts'
import type { ModelServer } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { aModel, anAgent, runTurn, streamed } from './agent-rig.ts'

/** An agent whose model is behind the egress proxy. */
const behindProxy = (proxy: ModelServer): AgentConfig => ({
  kind: 'openaiCompatible',
  model: { name: 'fake-model', baseUrl: proxy.url, server: 'http://model.test/v1' },
})

const busy = (seconds: number, headers: Record<string, string> = {}) => ({
  status: 503,
  headers: { 'retry-after': `${seconds}`, ...headers },
})
const frozen = (seconds: number) => busy(seconds, { [EGRESS_RULE_HEADER]: 'restricted' })

/** More often than the agent runtime repeats a request by itself. */
const MANY = 8

it('waits for a proxy without a lease, tells people once, and the turn goes on', async () => {
  const reason = { [EGRESS_REASON_HEADER]: 'Connection refused: no lease.' }
  const proxy = await aModel((_request, index) => (index < MANY ? busy(0, reason) : { text: 'Hello.' }))
  const waits: string[] = []
  let tokens = 0
  const { agent } = await anAgent(behindProxy(proxy), {
    onModelWait: (message) => waits.push(message),
    fetchEgressToken: async () => `token-${++tokens}`,
  })

  const { result, events } = await runTurn(agent)

  expect(result).toEqual({ state: 'completed' })
  expect(streamed(events)).toBe('Hello.')
  expect(waits).toEqual(['The model cannot be asked now, so the turn waits: Connection refused: no lease.'])
  const sent = proxy.requests.map(({ headers }) => headers['authorization'])
  expect(sent).toHaveLength(MANY + 1)
  expect(new Set(sent).size).toBe(MANY + 1)
})

it.each([
  ['frozen', frozen],
  ['busy', busy],
] as const)('ends at once if the turn is cancelled while it is %s', async (_why, answer) => {
  const proxy = await aModel(() => answer(100))
  const { agent } = await anAgent(behindProxy(proxy))
  const cancel = new AbortController()
  const turn = runTurn(agent, 'do it', cancel.signal)
  await until('the request waits', () => proxy.requests.length === 1)

  cancel.abort()

  expect((await turn).result).toEqual({ state: 'cancelled' })
  await agent.close()
  expect(proxy.requests).toHaveLength(1)
})

it('repeats nothing after the first byte of an answer', async () => {
  const proxy = await aModel(() => ({ raw: 'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n' }))
  const requests = new ModelRequests({
    proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' },
    onWait: () => {
      throw new Error('it waits')
    },
  })

  const response = await requests.sendRequest(aRequest(proxy), { signal: new AbortController().signal })

  expect(await response.text()).toContain('Hel')
  expect(proxy.requests).toHaveLength(1)
})

const aRequest = ({ url }: ModelServer) =>
  new Request(`${url}/chat/completions`, { method: 'POST', body: '{"model":"fake-model"}' })

it('gives up after five minutes, also if the runtime repeats the request', async () => {
  const proxy = await aModel(() => busy(1))
  let now = 0
  const waits: ModelWait[] = []
  const requests = new ModelRequests({
    proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' },
    now: () => now,
    onWait: (wait) => {
      waits.push(wait)
      return () => {
        now += PATIENCE_MS / 2
      }
    },
  })
  const signal = new AbortController().signal

  const first = await requests.sendRequest(aRequest(proxy), { signal })
  const again = await requests.sendRequest(aRequest(proxy), { signal })

  expect([first.status, again.status]).toEqual([503, 503])
  expect(waits.map(({ isRepeated }) => isRepeated)).toEqual([false, true])
  expect(proxy.requests).toHaveLength(4)
})

it('believes only the proxy that the run is frozen, and only servers that name a time', async () => {
  const answers = [{ ...frozen(1), status: 429 }, { status: 503 }]
  const proxy = await aModel((_request, index) => answers[index] ?? { text: 'Hello.' })
  const waits: ModelWait[] = []
  const requests = new ModelRequests({
    proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' },
    onWait: (wait) => {
      waits.push(wait)
      return () => undefined
    },
  })

  const response = await requests.sendRequest(aRequest(proxy), { signal: new AbortController().signal })

  expect(response.status).toBe(503)
  expect(waits).toMatchObject([{ isFrozen: false, reason: 'its server asks to try again later (HTTP 429).' }])
})

it('sends the token to no other server', async () => {
  const proxy = await aModel(() => ({ text: 'Hello.' }))
  const other = await aModel(() => ({ text: 'Hello.' }))
  const requests = new ModelRequests({
    proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' },
    onWait: () => () => undefined,
  })

  await expect(
    requests.sendRequest(aRequest(other), { signal: new AbortController().signal }),
  ).rejects.toThrow(/only to its model/)
  expect(other.requests).toEqual([])
})

it('keeps a streamed request open while it waits, because the agent runtime ends silent ones', async () => {
  const proxy = await aModel((_request, index) => (index < 2 ? frozen(1) : { text: 'Hello.' }))
  const requests = new ModelRequests({
    proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' },
    onWait: () => () => undefined,
    keepOpen: { afterMs: 10, everyMs: 10 },
  })
  const ask = (stream: boolean) =>
    requests.sendRequest(
      new Request(`${proxy.url}/chat/completions`, { method: 'POST', body: JSON.stringify({ stream }) }),
      { signal: new AbortController().signal },
    )

  const response = await ask(true)
  const text = await response.text()

  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  expect(text).toMatch(/^(: waiting\n\n)+data: /)
  expect(text).toContain('Hello.')
  expect(await (await ask(false)).text()).toMatch(/^\{/)
})
