import { expect, it } from 'vitest'
import type { HostEnvelope } from '../../contracts/events.ts'
import type { AgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { Relay } from '../../runtime/api/runs/ingest/relay.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { allCommitted } from './all-committed.ts'

const EVENTS = 200

/** Number of events of this size that a relay reads from a sandbox while its first commit is pending. */
async function takenWhileCommitting(characters: number): Promise<{ taken: number; batches: number[] }> {
  let taken = 0
  const stop = new AbortController()
  const committing = Promise.withResolvers<void>()
  const batches: number[] = []
  async function* events(): AsyncGenerator<HostEnvelope> {
    while (taken < EVENTS) {
      const chunk = 'x'.repeat(characters)
      const data = { commandId: 'c', stream: 'stdout', chunk } as const
      taken += 1
      yield { sequence: taken, at: '2026-01-01T00:00:00Z', event: { type: 'command.output', data } }
    }
    await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()))
  }
  const client: Partial<AgentHostClient> = {
    events,
    decide: async () => ({ accepted: [], unknown: [], conflicting: [] }),
  }
  const relay = new Relay({
    runId: 'r',
    generation: 1,
    client: client as AgentHostClient,
    commit: async ({ envelopes }) => {
      batches.push(envelopes.length)
      await committing.promise
      const through = envelopes.at(-1)?.sequence ?? 0
      if (through === EVENTS) stop.abort()
      return allCommitted(envelopes)
    },
    onCommitted: () => undefined,
    maxWeight: Number.POSITIVE_INFINITY,
    signal: stop.signal,
    log: silentLog,
  })
  const relaying = relay.run()
  // Everything here is in this process, so a turn of the event loop is all that the relay needs.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
  const takenMeanwhile = taken
  committing.resolve()
  await relaying
  return { taken: takenMeanwhile, batches }
}

it('buffers few events of a sandbox that sends large ones faster than they are stored, and loses none', async () => {
  const { taken, batches } = await takenWhileCommitting(1_048_576)

  expect(taken).toBeLessThan(40)
  expect(Math.max(...batches)).toBeLessThan(40)
  expect(batches.reduce((sum, size) => sum + size, 0)).toBe(EVENTS)
})

it('commits all events that are available together in one batch, even if they arrive in several chunks', async () => {
  const batches: number[] = []
  const stop = new AbortController()
  async function* events(): AsyncGenerator<HostEnvelope> {
    for (const sequence of [1, 2, 3]) {
      await Promise.resolve()
      const data = { commandId: 'c', stream: 'stdout', chunk: 'x' } as const
      yield { sequence, at: '2026-01-01T00:00:00Z', event: { type: 'command.output', data } }
    }
    await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()))
  }
  const client: Partial<AgentHostClient> = {
    events,
    decide: async () => ({ accepted: [], unknown: [], conflicting: [] }),
  }

  await new Relay({
    runId: 'r',
    generation: 1,
    client: client as AgentHostClient,
    commit: async ({ envelopes }) => {
      batches.push(envelopes.length)
      const through = envelopes.at(-1)?.sequence ?? 0
      if (through === 3) stop.abort()
      return allCommitted(envelopes)
    },
    onCommitted: () => undefined,
    maxWeight: Number.POSITIVE_INFINITY,
    signal: stop.signal,
    log: silentLog,
  }).run()

  expect(batches).toEqual([3])
})

it('accepts many small events during a commit', async () => {
  expect((await takenWhileCommitting(100)).taken).toBe(EVENTS)
})

it('ends a sandbox that sends more than a run may, and does not attach to it again', async () => {
  let attached = 0
  async function* events(after: number): AsyncGenerator<HostEnvelope> {
    attached += 1
    for (let sequence = after + 1; ; sequence++) {
      const data = { commandId: 'c', stream: 'stdout', chunk: 'x'.repeat(10_000) } as const
      yield { sequence, at: '2026-01-01T00:00:00Z', event: { type: 'command.output', data } }
    }
  }
  const client: Partial<AgentHostClient> = {
    events,
    decide: async () => ({ accepted: [], unknown: [], conflicting: [] }),
  }
  let through = 0
  const relay = new Relay({
    runId: 'r',
    generation: 1,
    client: client as AgentHostClient,
    commit: async ({ envelopes }) => {
      through = envelopes.at(-1)?.sequence ?? 0
      return allCommitted(envelopes)
    },
    onCommitted: () => undefined,
    maxWeight: 1_000_000,
    signal: new AbortController().signal,
    log: silentLog,
  })

  await expect(relay.run()).rejects.toMatchObject({ code: 'agent_quota_exceeded' })

  expect(attached).toBe(1)
  expect(through).toBeLessThanOrEqual(100)
})
