import { expect, it, onTestFinished, vi } from 'vitest'
import type { DecisionsRequest } from '../../contracts/decisions.ts'
import type { HostEnvelope } from '../../contracts/events.ts'
import { DECISION_LIMITS } from '../../contracts/limits.ts'
import type { AgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { Relay } from '../../runtime/api/runs/ingest/relay.ts'
import { AsyncQueue } from '../../runtime/kit/async-queue.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { until } from '../helpers/until.ts'
import { allCommitted } from './all-committed.ts'

const AT = '2026-01-01T00:00:00Z'

/** A relay with immediate commits, and a sandbox whose events the test chooses. */
function startRelay({
  failing = 0,
  decides = false,
  settled = Number.POSITIVE_INFINITY,
  begun = Promise.resolve(),
  heldUntil = (): string | undefined => undefined,
} = {}) {
  const stop = new AbortController()
  const told: DecisionsRequest[] = []
  let said: AsyncQueue<number>
  let attached = 0
  let failures = failing
  let committed = 0
  let read = 0
  const batches: number[] = []
  async function* events(after: number, signal: AbortSignal): AsyncGenerator<HostEnvelope> {
    attached += 1
    said = new AsyncQueue<number>()
    signal.addEventListener('abort', () => said.end(), { once: true })
    let sequence = after
    for await (const characters of said) {
      const data = { commandId: 'c', stream: 'stdout', chunk: 'x'.repeat(characters) } as const
      read += 1
      yield { sequence: ++sequence, at: AT, event: { type: 'command.output', data } }
    }
    signal.throwIfAborted()
  }
  const client: Partial<AgentHostClient> = {
    events,
    decide: async (request) => {
      told.push(request)
      if (failures-- > 0) throw new SandboxError('sandbox_lost', 'the line broke')
      return { accepted: [], unknown: [], conflicting: [] }
    },
  }
  const relay = new Relay({
    runId: 'r',
    generation: 1,
    client: client as AgentHostClient,
    begun,
    heldUntil,
    commit: async ({ envelopes }) => {
      committed = envelopes.at(-1)?.sequence ?? 0
      batches.push(envelopes.length)
      const decisions = decides ? [{ callId: `c${committed}`, outcome: 'release' as const }] : []
      const all = allCommitted(envelopes)
      return { ...all, ackThrough: Math.min(all.ackThrough, settled), decisions }
    },
    onCommitted: () => undefined,
    maxWeight: Number.POSITIVE_INFINITY,
    signal: stop.signal,
    log: silentLog,
  })
  const running = relay.run()
  onTestFinished(async () => {
    stop.abort()
    await running
  })
  return {
    relay,
    told,
    /** How many events each commit had. */
    batches,
    say: (count: number, characters = 1) => {
      for (let i = 0; i < count; i++) said.push(characters)
    },
    committed: () => committed,
    untilRead: (count: number) => until(`${count} events are read`, () => read === count),
    untilCommitted: (sequence: number) => until(`${sequence} is committed`, () => committed === sequence),
    untilAttached: (times: number) => until(`attached ${times} times`, () => attached === times),
  }
}

/** Replaces the relay's timers with fake ones; commits use no timers. */
function stopTheClock(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
}

it('acknowledges several consecutive commits with one request', async () => {
  const { told, say, committed, untilAttached } = startRelay()
  await untilAttached(1)
  stopTheClock()

  for (const sequence of [1, 2, 3]) {
    say(1)
    while (committed() !== sequence) await new Promise(setImmediate)
  }
  const toldAtOnce = told.length
  await vi.advanceTimersByTimeAsync(DECISION_LIMITS.ackEveryMs)
  const toldInTime = told.map(({ ackedThrough }) => ackedThrough)
  await vi.advanceTimersByTimeAsync(DECISION_LIMITS.ackEveryMs * 2)

  expect(toldAtOnce).toBe(0)
  expect(toldInTime).toEqual([3])
  expect(told).toHaveLength(1)
})

it.each([
  { what: 'many events', count: DECISION_LIMITS.ackEveryEvents, characters: 1 },
  { what: 'one large event', count: 1, characters: DECISION_LIMITS.outboxBytes / 16 },
])('acknowledges at once after $what, which would fill an outbox', async ({ count, characters }) => {
  const { told, say, untilCommitted } = startRelay()

  say(count, characters)
  await untilCommitted(count)
  await new Promise((resolve) => setImmediate(resolve))

  expect(told.map(({ ackedThrough }) => ackedThrough)).toEqual([count])
})

it('sends a decision at once together with the acknowledgement, and no further request', async () => {
  const { told, say, untilAttached, untilCommitted } = startRelay({ decides: true })
  await untilAttached(1)
  stopTheClock()

  say(1)
  await untilCommitted(1)
  await new Promise((resolve) => setImmediate(resolve))
  const atOnce = told.length
  await vi.advanceTimersByTimeAsync(DECISION_LIMITS.ackEveryMs * 2)

  expect(atOnce).toBe(1)
  expect(told).toMatchObject([{ ackedThrough: 1, decisions: [{ callId: 'c1' }] }])
})

it('attaches again after a lost acknowledgement, and continues', async () => {
  const { told, say, untilCommitted, untilAttached } = startRelay({ failing: 1 })

  say(1)
  await untilAttached(2)
  say(1)
  await untilCommitted(2)
  await until('it is told again', () => told.length === 2)

  expect(told.map(({ ackedThrough }) => ackedThrough)).toEqual([1, 2])
})

it('does not acknowledge held-back events, and continues to read after them', async () => {
  const { told, say, untilCommitted, untilAttached } = startRelay({ settled: 2, failing: 1 })

  say(4)
  await untilCommitted(4)
  await until('it is told', () => told.length > 0)
  await untilAttached(2)
  say(1)
  await untilCommitted(5)
  await until('it is told again', () => told.length > 1)

  expect(told.map(({ ackedThrough }) => ackedThrough)).toEqual([2, 2])
})

it('commits nothing before the run has begun, then all earlier events in one batch', async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const { batches, say, untilAttached, untilRead, untilCommitted } = startRelay({ begun })
  await untilAttached(1)

  say(1)
  await untilRead(1)
  say(2)
  await untilRead(3)
  const before = [...batches]
  begin()
  await untilCommitted(3)

  expect(before).toEqual([])
  expect(batches).toEqual([3])
})

it('lets the sandbox hold decided calls, and releases each of them once afterwards', async () => {
  let until: string | undefined = '2026-01-02T00:00:00Z'
  const { relay, told } = startRelay({ heldUntil: () => until })
  const release = { callId: 'c', outcome: 'release' } as const

  await relay.post([release])
  await relay.post([])
  until = undefined
  await relay.post([])
  await relay.post([])

  expect(told.map(({ decisions }) => decisions)).toEqual([
    [{ callId: 'c', outcome: 'pending', until: '2026-01-02T00:00:00Z' }],
    [{ callId: 'c', outcome: 'pending', until: '2026-01-02T00:00:00Z' }],
    [release],
    [],
  ])
})
