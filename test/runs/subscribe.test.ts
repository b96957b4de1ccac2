import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RunEnvelope } from '../../contracts/events.ts'
import { subscribeToRun } from '../../runtime/api/runs/reads/subscribe.ts'
import type { EventListener } from '../../runtime/store/event-listeners.ts'

const RUN = 'run_1'
const anEnvelope = (sequence: number): RunEnvelope => ({
  sequence,
  at: '2026-01-01T00:00:00.000Z',
  event: { type: 'agent.message.delta', data: { messageId: 'm1', text: `word ${sequence}` } },
})

/** A store of one run. Committing and telling of it are apart, as they are where several processes commit. */
class Commits {
  readonly events: RunEnvelope[] = []
  reads = 0
  #listener: EventListener = () => undefined
  /** Called when a read has finished, before the reader receives its result. */
  onRead: () => void = () => undefined

  commit(count: number): RunEnvelope[] {
    const fresh = Array.from({ length: count }, (_, index) => anEnvelope(this.events.length + 1 + index))
    this.events.push(...fresh)
    return fresh
  }

  tell(events?: readonly RunEnvelope[]): void {
    this.#listener(events)
  }

  get store() {
    return {
      readEvents: async (_runId: string, after: number, limit: number) => {
        this.reads += 1
        const page = this.events.filter(({ sequence }) => sequence > after).slice(0, limit)
        this.onRead()
        await Promise.resolve()
        return page
      },
      onEvents: (_runId: string, listener: EventListener) => {
        this.#listener = listener
        return () => {
          this.#listener = () => undefined
        }
      },
    }
  }
}

function follow(commits: Commits, after = 0) {
  const stop = new AbortController()
  const events = subscribeToRun(commits.store, RUN, { after, signal: stop.signal })
  return {
    stop,
    async take(count: number): Promise<number[]> {
      const taken: number[] = []
      while (taken.length < count) {
        const { value, done } = await events.next()
        if (done) break
        taken.push(value.sequence)
      }
      return taken
    },
  }
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

describe('following a run', () => {
  it('reads the store once to its end; later commits arrive through the notification', async () => {
    const commits = new Commits()
    commits.commit(3)
    const reader = follow(commits)
    expect(await reader.take(3)).toEqual([1, 2, 3])

    const next = reader.take(4)
    commits.tell(commits.commit(2))
    commits.tell(commits.commit(2))

    expect(await next).toEqual([4, 5, 6, 7])
    expect(commits.reads).toBe(1)
  })

  it('reads the next page after a full page', async () => {
    const commits = new Commits()
    commits.commit(450)

    expect(await follow(commits).take(450)).toEqual(range(1, 450))

    expect(commits.reads).toBe(3)
  })

  it('resumes after the number that it is given', async () => {
    const commits = new Commits()
    commits.commit(5)
    const reader = follow(commits, 3)

    const taken = reader.take(4)
    commits.tell(commits.commit(2))

    expect(await taken).toEqual([4, 5, 6, 7])
  })

  it('neither repeats events committed during the read nor loses events committed after it', async () => {
    const commits = new Commits()
    const [during, after] = [commits.commit(2), [] as RunEnvelope[]]
    commits.onRead = () => {
      commits.onRead = () => undefined
      after.push(...commits.commit(2))
      commits.tell(during)
      commits.tell(after)
    }

    expect(await follow(commits).take(4)).toEqual([1, 2, 3, 4])
  })

  it('reads the store again if commit notifications are out of order or missing', async () => {
    const commits = new Commits()
    commits.commit(1)
    const reader = follow(commits)
    await reader.take(1)

    const taken = reader.take(5)
    const [first, second] = [commits.commit(1), commits.commit(1)]
    commits.commit(2)
    commits.tell(second)
    commits.tell(first)
    commits.tell(commits.commit(1))

    expect(await taken).toEqual([2, 3, 4, 5, 6])
  })

  it('holds a bounded number of events for a reader that does not pull', async () => {
    const commits = new Commits()
    commits.commit(1)
    const reader = follow(commits)
    await reader.take(1)

    for (let count = 0; count < 100; count += 1) commits.tell(commits.commit(10))

    expect(await reader.take(1_000)).toEqual(range(2, 1_001))
    expect(commits.reads).toBeGreaterThan(4)
  })

  it('ends with its signal', async () => {
    const commits = new Commits()
    const reader = follow(commits)

    const taken = reader.take(1)
    reader.stop.abort()

    expect(await taken).toEqual([])
  })

  it('yields every event once and in order for any order of notifications', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { maxLength: 40 }), async (steps) => {
        const commits = new Commits()
        const reader = follow(commits)
        const seen: number[] = []
        const moves = movesOf(commits, async (count) => {
          seen.push(...(await reader.take(Math.min(count, commits.events.length - seen.length))))
        })

        for (const { move, number } of [...steps, { move: 'pull' as const, number: Number.MAX_SAFE_INTEGER }])
          await moves[move](number)

        expect(seen).toEqual(commits.events.map(({ sequence }) => sequence))
      }),
      { numRuns: 300 },
    )
  })
})

const aStep = fc.record({
  move: fc.constantFrom('commit', 'tell', 'look', 'pull'),
  number: fc.integer({ min: 1, max: 90 }),
})

function movesOf(commits: Commits, take: (count: number) => Promise<void>) {
  const untold: RunEnvelope[][] = []
  return {
    commit: (count: number) => untold.push(commits.commit(count)),
    tell: (which: number) => commits.tell(untold.splice(which % (untold.length || 1), 1)[0]),
    look: () => commits.tell(),
    /** Delivers all pending events, the latest first, so that the reader can receive its events. */
    pull: async (count: number) => {
      for (const events of untold.splice(0).reverse()) commits.tell(events)
      await take(count)
    },
  }
}
