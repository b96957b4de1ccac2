import { expect, it } from 'vitest'
import type { AgentConfig } from '../../contracts/agents.ts'
import { EGRESS_REASON_HEADER, EGRESS_RULE_HEADER } from '../../contracts/egress.ts'
import { ModelRequests } from '../../runtime/agents/copilot/model-requests.ts'
import { type ModelWait, PATIENCE_MS } from '../../runtime/agents/model-waits.ts'
import type { ModelServer } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { aModel, anAgent, runTurn, streamed } from './agent-rig.ts'
import { childPids } from './children.ts'

/** An agent whose model is behind the egress proxy. */
const behindProxy = (proxy: ModelServer): AgentConfig => ({
  kind: 'openaiCompatible',
  model: { name: 'fake-model', baseUrl: proxy.url, server: 'http://model.test/v1' },
})

const busy = (seconds: number, headers: Record<string, string> = {}) => ({
  status: 503,
  headers: { 'retry-after': `${seconds}`, ...headers },
})
const never = new AbortController().signal
const frozen = (seconds: number) => busy(seconds, { [EGRESS_RULE_HEADER]: 'restricted' })

/** More often than the agent runtime repeats a request by itself. */
const MANY = 8

it('waits for a proxy without a lease, reports it once, and the turn goes on', async () => {
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
  expect(waits).toEqual([
    'The model cannot be called now. AgentHost repeats the request for up to 5 minutes: Connection refused: no lease.',
  ])
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
    ...{ proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' }, gone: never },
    onWait: () => {
      throw new Error('it waits')
    },
  })

  const response = await requests.sendRequest(aRequest(proxy), { signal: new AbortController().signal })

  expect(await response.text()).toContain('Hel')
  expect(proxy.requests).toHaveLength(1)
})

const aRequest = ({ url }: { readonly url: string }) =>
  new Request(`${url}/chat/completions`, { method: 'POST', body: '{"model":"fake-model"}' })

it('gives up after five minutes, also if the runtime repeats the request', async () => {
  const proxy = await aModel(() => busy(1))
  let now = 0
  const waits: ModelWait[] = []
  const requests = new ModelRequests({
    ...{ proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' }, gone: never },
    now: () => now,
    onWait: (wait) => {
      waits.push(wait)
      return () => {
        now += PATIENCE_MS / 5
      }
    },
  })
  const signal = new AbortController().signal

  const first = await requests.sendRequest(aRequest(proxy), { signal })
  const again = await requests.sendRequest(aRequest(proxy), { signal })

  expect([first.status, again.status]).toEqual([503, 503])
  expect(waits.map(({ isRepeated }) => isRepeated)).toEqual([false, true, true, true, true])
  expect(proxy.requests).toHaveLength(7)
})

it('waits without a limit only for a refusal of the proxy, and repeats only after `Retry-After`', async () => {
  const answers = [{ ...frozen(1), status: 429 }, { status: 503 }]
  const proxy = await aModel((_request, index) => answers[index] ?? { text: 'Hello.' })
  const waits: ModelWait[] = []
  const requests = new ModelRequests({
    ...{ proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' }, gone: never },
    onWait: (wait) => {
      waits.push(wait)
      return () => undefined
    },
  })

  const response = await requests.sendRequest(aRequest(proxy), { signal: new AbortController().signal })

  expect(response.status).toBe(503)
  expect(waits).toMatchObject([{ isFrozen: false, reason: 'its server asks to try again later (HTTP 429).' }])
})

/** Requests of a runtime, with a clock that stands still between waits. */
function timedRequests(proxy: { readonly url: string }, gone = never, clock = { now: 0 }) {
  const waits: ModelWait[] = []
  const requests = new ModelRequests({
    ...{ proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' }, gone },
    now: () => clock.now,
    onWait: (wait) => {
      waits.push(wait)
      return () => undefined
    },
  })
  const ask = (signal = never) => requests.sendRequest(aRequest(proxy), { signal })
  return { ask, clock, waits }
}

it('waits for up to five minutes again in a new outage, also after a cancelled wait', async () => {
  const proxy = await aModel((_request, index) =>
    index === 0 ? busy(100) : index === 1 ? busy(1) : { text: '' },
  )
  const { ask, clock, waits } = timedRequests(proxy)
  const cancel = new AbortController()
  const cancelled = ask(cancel.signal)
  await until('it waits', () => waits.length === 1)
  cancel.abort()
  await expect(cancelled).rejects.toThrow()

  clock.now = 3_600_000
  const response = await ask()

  expect([response.status, waits.length]).toEqual([200, 2])
})

it('gives up after five minutes, also if each response is slow', async () => {
  const clock = { now: 0 }
  const proxy = await aModel(() => {
    clock.now += PATIENCE_MS / 2
    return busy(1)
  })
  const { ask, waits } = timedRequests(proxy, never, clock)

  expect((await ask()).status).toBe(503)
  expect(waits).toHaveLength(2)
})

it('does not wait if `Retry-After` exceeds five minutes, and waits again in the next request', async () => {
  const proxy = await aModel((_request, index) => [busy(3_600), busy(1)][index] ?? { text: '' })
  const { ask, clock, waits } = timedRequests(proxy)

  expect((await ask()).status).toBe(503)
  clock.now = PATIENCE_MS
  expect((await ask()).status).toBe(200)
  expect(waits).toHaveLength(1)
})

it('waits for a proxy to which no connection can be opened', async () => {
  const gone = await aModel(() => ({ text: '' }))
  await gone.close()
  const { ask, waits } = timedRequests(gone)
  const cancel = new AbortController()
  const asked = ask(cancel.signal)
  await until('it waits', () => waits.length === 1)
  expect(waits[0]?.reason).toBe('no connection to the egress proxy could be opened.')

  cancel.abort()
  await expect(asked).rejects.toThrow()
})

it('ends its requests when the agent runtime has ended', async () => {
  const proxy = await aModel(() => frozen(1))
  const runtime = new AbortController()
  const { ask, waits } = timedRequests(proxy, runtime.signal)
  const asked = ask()
  await until('it waits', () => waits.length === 1)

  runtime.abort()

  await expect(asked).rejects.toThrow()
})

it('ends its requests when the runtime of an agent is killed', async () => {
  const proxy = await aModel(() => frozen(1))
  const before = await childPids()
  const { agent } = await anAgent(behindProxy(proxy))
  const turn = runTurn(agent)
  await until('the request waits', () => proxy.requests.length > 0)
  for (const pid of await childPids()) if (!before.includes(pid)) process.kill(pid, 'SIGKILL')
  await turn
  await agent.close()

  const sent = proxy.requests.length
  // Longer than the time after which the request would be repeated.
  const next = await aModel(() => ({ text: 'Hello.' }))
  const other = await anAgent(behindProxy(next))
  expect((await runTurn(other.agent)).result).toEqual({ state: 'completed' })
  expect(proxy.requests).toHaveLength(sent)
})

it.each(['5, 10', '-3', '0x10', 'soon', ''])('does not wait for the time %j', async (retryAfter) => {
  const proxy = await aModel(() => ({ status: 503, headers: { 'retry-after': retryAfter } }))
  const { ask, waits } = timedRequests(proxy)

  expect((await ask()).status).toBe(503)
  expect(waits).toEqual([])
})

it('sends the token to no other server', async () => {
  const proxy = await aModel(() => ({ text: 'Hello.' }))
  const other = await aModel(() => ({ text: 'Hello.' }))
  const requests = new ModelRequests({
    ...{ proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' }, gone: never },
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
    ...{ proxy: { baseUrl: proxy.url, fetchToken: async () => 'token' }, gone: never },
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
