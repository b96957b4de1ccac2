import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HostEnvelope, HostEvent, RunEvent } from '../../contracts/events.ts'
import { DECISION_LIMITS } from '../../contracts/limits.ts'
import type { Store } from '../../runtime/store/store.ts'
import { EXITED } from '../helpers/exec-result.ts'
import { startCommitterRig } from './committer-rig.ts'

const AT = new Date(0).toISOString()
const said = (events: readonly RunEvent[]): string =>
  events.map((event) => (event.type === 'command.output' ? event.data.chunk : '')).join('')

/** A store whose transactions fail and roll back at their end while `breaks` returns true. */
const breaking = (store: Store, breaks: () => boolean): Store =>
  new Proxy(store, {
    get: (target, key) => {
      if (key !== 'transaction') return Reflect.get(target, key)
      return (work: Parameters<Store['transaction']>[0]) =>
        target.transaction(async (tx) => {
          const result = await work(tx)
          if (breaks()) throw new Error('the store broke')
          return result
        })
    },
  })

/** A sandbox whose command prints these pieces, one event each, and then ends. */
async function aSandbox(pieces: readonly string[]) {
  const rig = await startCommitterRig()
  const commandId = `cmd-of-${rig.runId}`
  const events: HostEvent[] = [
    ...pieces.map((chunk) => ({
      type: 'command.output' as const,
      data: { commandId, stream: 'stdout' as const, chunk },
    })),
    { type: 'command.exited', data: { commandId, result: EXITED } },
  ]
  const outbox = events.map((event, index): HostEnvelope => ({ sequence: index + 1, at: AT, event }))
  const kept = async () => (await rig.store.readEvents(rig.runId, 0, 10_000)).map(({ event }) => event)
  return {
    ...rig,
    outbox,
    kept,
    batch: (envelopes: readonly HostEnvelope[]) => ({ runId: rig.runId, generation: 1, envelopes }),
  }
}

describe('text that is held back', () => {
  it('is neither lost nor repeated if the store fails and the sandbox sends the events again', async () => {
    const { store, driver, outbox, batch, kept } = await aSandbox(['one tw', 'o thr', 'ee\nfo', 'ur'])
    let breaks = false
    const { committer } = await driver({ store: breaking(store, () => breaks) })

    for (const envelope of outbox) {
      breaks = true
      await expect(committer.commit(batch([envelope]))).rejects.toThrow('the store broke')
      breaks = false
      await committer.commit(batch([envelope]))
    }

    expect(said(await kept())).toBe('one two three\nfour')
    expect((await kept()).at(-1)).toMatchObject({ type: 'command.exited' })
  })

  it('is what the next driver reads again, wherever the one before it was killed', async () => {
    const piece = fc.string({ unit: fc.constantFrom(...' \nab=:-.1'), minLength: 1, maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { minLength: 1, maxLength: 8 }),
        fc.array(fc.nat(8), { maxLength: 4 }),
        async (pieces, kills) => {
          const { driver, outbox, batch, kept, row } = await aSandbox(pieces)
          let forgotten = 0
          for (const kill of [...kills.sort((a, b) => a - b), outbox.length]) {
            const { committer, after } = await driver()
            expect(after, 'the sandbox has it still').toBeGreaterThanOrEqual(forgotten)
            for (const envelope of outbox.slice(after, kill)) {
              forgotten = (await committer.commit(batch([envelope]))).ackThrough
            }
          }

          expect(said(await kept())).toBe(pieces.join(''))
          expect(await row()).toMatchObject({ hostSequence: outbox.length, hostReread: 0 })
        },
      ),
      { numRuns: 60 },
    )
  })

  it('is not to be forgotten by the sandbox before it has come out', async () => {
    const { driver, outbox, batch, row } = await aSandbox(['one\n', 'tw', 'o\n'])
    const { committer } = await driver()

    const told: number[] = []
    for (const envelope of outbox) told.push((await committer.commit(batch([envelope]))).ackThrough)

    expect(told).toEqual([1, 1, 3, 4])
    expect(await row()).toMatchObject({ hostSequence: 4, hostReread: 0 })
  })

  it.each([
    ['many events', DECISION_LIMITS.ackEveryEvents + 1, 1],
    ['much text', 2, DECISION_LIMITS.outboxBytes / 16],
  ])('does not keep a sandbox from forgetting %s that came since', async (_what, count, characters) => {
    const { runId, driver, batch, row } = await aSandbox(['held'])
    const { committer } = await driver()
    const held: HostEvent = {
      type: 'command.output',
      data: { commandId: `cmd-of-${runId}`, stream: 'stdout', chunk: 'held' },
    }
    const other: HostEvent = { type: 'agent.message', data: { messageId: 'm', text: 'x'.repeat(characters) } }
    const events = [held, ...Array.from({ length: count }, () => other)]
    const envelopes = events.map((event, index) => ({ sequence: index + 1, at: AT, event }))

    const first = await committer.commit(batch(envelopes.slice(0, 1)))
    const last = await committer.commit(batch(envelopes.slice(1)))

    expect(first.ackThrough).toBe(0)
    expect(last.ackThrough).toBeGreaterThan(count - 2)
    expect((await row()).hostReread).toBe(count + 1 - last.ackThrough)
  })
})
