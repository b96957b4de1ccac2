import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { HostEnvelope, HostEvent } from '../../contracts/events.ts'
import { Outbox } from '../../runtime/agent-host/outbox.ts'

const LIMITS = { maxEvents: 100, maxBytes: 1_000_000 }
const said = (text: string): HostEvent => ({ type: 'agent.message', data: { messageId: 'm', text } })

async function take(outbox: Outbox, after: number, count: number): Promise<HostEnvelope[]> {
  const stop = new AbortController()
  const taken: HostEnvelope[] = []
  if (count === 0) return taken
  for await (const envelope of outbox.follow(after, stop.signal)) {
    taken.push(envelope)
    if (taken.length === count) return taken
  }
  return taken
}

it('numbers events from 1 without gaps, in the order in which they were emitted', async () => {
  const outbox = new Outbox(LIMITS)

  await Promise.all(['a', 'b', 'c'].map((text) => outbox.emit(said(text))))

  const all = await take(outbox, 0, 3)
  expect(all.map(({ sequence }) => sequence)).toEqual([1, 2, 3])
  expect(all.map(({ event }) => event.type === 'agent.message' && event.data.text)).toEqual(['a', 'b', 'c'])
})

it('gives a follower that attaches again, wherever it was cut, everything once', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.nat(20), { maxLength: 6 }),
      async (count, cuts) => {
        const outbox = new Outbox(LIMITS)
        for (let i = 0; i < count; i++) await outbox.emit(said(String(i)))
        const seen: number[] = []

        for (const cut of cuts) {
          const part = await take(outbox, seen.at(-1) ?? 0, Math.min(cut, count - seen.length))
          seen.push(...part.map(({ sequence }) => sequence))
          outbox.acknowledge(seen.at(-1) ?? 0)
        }
        seen.push(
          ...(await take(outbox, seen.at(-1) ?? 0, count - seen.length)).map(({ sequence }) => sequence),
        )

        expect(seen).toEqual(Array.from({ length: count }, (_, i) => i + 1))
      },
    ),
  )
})

it('pauses the emitter while it is full, and drops nothing', async () => {
  const outbox = new Outbox({ maxEvents: 2, maxBytes: 1_000_000 })
  await outbox.emit(said('1'))
  await outbox.emit(said('2'))

  let numbered = false
  const third = outbox.emit(said('3')).then(() => {
    numbered = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  expect(numbered).toBe(false)
  outbox.acknowledge(1)
  await third

  expect((await take(outbox, 1, 2)).map(({ sequence }) => sequence)).toEqual([2, 3])
})

it('bounds by bytes as well as by count', async () => {
  const outbox = new Outbox({ maxEvents: 100, maxBytes: 200 })
  await outbox.emit(said('x'.repeat(300)))

  let numbered = false
  void outbox.emit(said('2')).then(() => {
    numbered = true
  })
  await new Promise((resolve) => setImmediate(resolve))

  expect(numbered).toBe(false)
  outbox.close()
})

it('throws outbox_overrun for events that were dropped and invalid_request for events that never existed', async () => {
  const outbox = new Outbox(LIMITS)
  for (const text of ['1', '2', '3']) await outbox.emit(said(text))
  outbox.acknowledge(2)

  expect(() => outbox.assertReplayable(1)).toThrow(expect.objectContaining({ code: 'outbox_overrun' }))
  expect(() => outbox.assertReplayable(4)).toThrow(expect.objectContaining({ code: 'invalid_request' }))
  expect(() => outbox.acknowledge(4)).toThrow(expect.objectContaining({ code: 'invalid_request' }))
  expect(() => outbox.assertReplayable(2)).not.toThrow()
})

it('ends a follower whose last event was acknowledged elsewhere before it came to it', async () => {
  const outbox = new Outbox(LIMITS)
  await outbox.emit(said('1'))
  outbox.acknowledge(1)

  const seen: HostEnvelope[] = []
  for await (const envelope of outbox.follow(0, new AbortController().signal, () => 1)) seen.push(envelope)

  expect(seen).toEqual([])
})
