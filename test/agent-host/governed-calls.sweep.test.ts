import { expect, test } from 'vitest'
import { HostEvent } from '../../contracts/events.ts'
import type { Decision } from '../../contracts/policy.ts'
import { DecisionTable } from '../../runtime/agent-host/decisions/decision-table.ts'
import { Outbox } from '../../runtime/agent-host/outbox.ts'
import { GovernedCalls } from '../../runtime/agent-host/session/governed-calls.ts'

/** The largest event that the API accepts. */
const MAX_EVENT_CHARACTERS = 34_000_000

type Redact = <T>(value: T) => { value: T; changed: boolean }

/** A `GovernedCalls` whose governance allows every call without an approval, and the outbox with its events. */
function someCalls(redact: Redact = (value) => ({ value, changed: false })) {
  const outbox = new Outbox({ maxEvents: 100, maxBytes: 1_000_000_000 })
  const decided: unknown[] = []
  const decisions = new DecisionTable({ timeoutMs: 60_000 })
  const calls = new GovernedCalls({
    decide: (request) => {
      decided.push(request)
      // A decision has more fields than the announcement may contain.
      const decision: Decision = { verdict: 'allow', rule: 'default', reasons: [], matched: ['x'] }
      return decision
    },
    onReleased: () => undefined,
    redact,
    run: async () => ({ ok: true, content: '', facts: {} }),
    outbox,
    decisions,
    digestKey: new Uint8Array(32),
    now: () => 0,
  })
  const events = async (): Promise<HostEvent[]> => {
    const seen: HostEvent[] = []
    const last = outbox.lastSequence
    for await (const { event } of outbox.follow(0, new AbortController().signal, () => last)) {
      seen.push(HostEvent.parse(event))
    }
    return seen
  }
  return { calls, events, decided, decisions }
}

const aCall = (file_text: unknown) => ({ callId: 'c', tool: 'create', arguments: { path: 'a', file_text } })
const io = { signal: new AbortController().signal }

test.each([
  ['40 MB of text', 'x'.repeat(40_000_000)],
  ['characters that JSON writes as six', '\u0001'.repeat(7_000_000)],
  ['a value that is nested too deeply to be JSON', nested(100_000)],
])('refuses %s, with events that the API takes', async (_what, text) => {
  const { calls, events, decided } = someCalls()

  const outcome = await calls.call(aCall(text), io)

  expect(outcome).toMatchObject({ ok: false, code: 'arguments_too_large' })
  const said = await events()
  expect(said).toMatchObject([
    { type: 'tool.call', data: { request: null, verdict: 'deny' } },
    { type: 'tool.error', data: { code: 'arguments_too_large' } },
  ])
  expect(JSON.stringify(said).length).toBeLessThan(MAX_EVENT_CHARACTERS)
  expect(decided, 'governance did not read it').toEqual([])
})

test('refuses arguments that redaction makes too long', async () => {
  const longer: Redact = (value) =>
    value === null || typeof value === 'string'
      ? { value, changed: false }
      : { value: { text: 'y'.repeat(40_000_000) } as typeof value, changed: true }
  const { calls, events } = someCalls(longer)

  const outcome = await calls.call(aCall('x'.repeat(5_000_000)), io)

  expect(outcome).toMatchObject({ ok: false, code: 'arguments_too_large' })
  expect(JSON.stringify(await events()).length).toBeLessThan(MAX_EVENT_CHARACTERS)
})

test('takes the largest file that a tool writes', async () => {
  const { calls, decided, events } = someCalls()
  const stop = new AbortController()

  const outcome = calls.call(aCall('x'.repeat(16_777_216)), { signal: stop.signal })
  await new Promise((resolve) => setImmediate(resolve))
  stop.abort()

  expect(await outcome).toMatchObject({ code: 'cancelled' })
  expect(decided).toHaveLength(1)
  expect((await events()).map(({ type }) => type)).toEqual(['tool.call', 'tool.error'])
})

test('waits for decisions only if every open call was announced as pending', async () => {
  const { calls, decisions } = someCalls()
  const first = calls.call({ ...aCall('x'), callId: 'a' }, io)
  const second = calls.call({ ...aCall('x'), callId: 'b' }, io)
  await new Promise((resolve) => setImmediate(resolve))
  const seen = [calls.waiting]

  decisions.decide([{ callId: 'a', outcome: 'pending' }])
  seen.push(calls.waiting)
  decisions.decide([{ callId: 'b', outcome: 'pending' }])
  seen.push(calls.waiting)
  decisions.decide([{ callId: 'a', outcome: 'denied' }])
  seen.push(calls.waiting)
  await first
  seen.push(calls.waiting)
  decisions.decide([{ callId: 'b', outcome: 'denied' }])
  await second
  seen.push(calls.waiting)

  expect(seen).toEqual([undefined, undefined, ['a', 'b'], undefined, ['b'], undefined])
})

function nested(depth: number): unknown {
  let value: unknown = []
  for (let at = 0; at < depth; at++) value = [value]
  return value
}
