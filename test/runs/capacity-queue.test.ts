import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { lackIn } from '../../runtime/api/runs/queue/await-capacity.ts'
import { CapacityQueue } from '../../runtime/api/runs/queue/capacity-queue.ts'
import { processorMs } from '../helpers/processor-time.ts'

const LONG = { atLeastMs: 0, atMostMs: 60_000 }
const never = new AbortController().signal

const waitIn = (queue: CapacityQueue, ...how: Parameters<CapacityQueue['wait']>) =>
  queue.during(() => queue.wait(...how))

describe('runs that wait for room', () => {
  /**
   * Returns the owners in the order in which their runs are woken. Capacity is reported again only after the previous
   * run has woken.
   */
  async function orderOf(owners: readonly string[]): Promise<string[]> {
    const queue = new CapacityQueue()
    const woken: string[] = []
    const waits = owners.map((owner, index) =>
      waitIn(queue, owner, LONG, never).then(() => woken.push(`${owner}${index}`)),
    )
    for (const _owner of owners) {
      queue.noteRoom()
      await new Promise(setImmediate)
    }
    await Promise.all(waits)
    expect(queue.length).toBe(0)
    return woken
  }

  it('are woken in the order in which they came', async () => {
    expect(await orderOf(['a', 'a', 'a'])).toEqual(['a0', 'a1', 'a2'])
  })

  it('are woken round-robin across owners, so that one owner with many runs cannot starve the others', async () => {
    expect(await orderOf(['a', 'a', 'a', 'b', 'c', 'b'])).toEqual(['a0', 'b3', 'c4', 'a1', 'b5', 'a2'])
  })

  it('are woken one per freed slot; a slot freed before they wait wakes none', async () => {
    const queue = new CapacityQueue()
    queue.noteRoom()
    let woken = 0
    for (const owner of ['a', 'b']) void waitIn(queue, owner, LONG, never).then(() => (woken += 1))

    queue.noteRoom()
    await new Promise(setImmediate)

    expect([woken, queue.length]).toEqual([1, 1])
    queue.noteRoom()
  })

  it('try again by themselves after a while', async () => {
    const queue = new CapacityQueue()

    await waitIn(queue, 'a', { atLeastMs: 0, atMostMs: 10 }, never)

    expect(queue.length).toBe(0)
  })

  it('wait the minimum time before a retry, then use capacity that was freed during the wait', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const queue = new CapacityQueue()
    const waiting = waitIn(queue, 'a', { atLeastMs: 100, atMostMs: 60_000 }, never)

    queue.noteRoom()
    await vi.advanceTimersByTimeAsync(99)
    expect(queue.length).toBe(1)
    await vi.advanceTimersByTimeAsync(1)
    await waiting

    expect(queue.length).toBe(0)
  })

  it('retry without a wait if capacity was freed during the attempt', async () => {
    const queue = new CapacityQueue()

    await queue.during(async () => {
      queue.noteRoom()
      await queue.wait('a', LONG, never)
    })

    expect(queue.length).toBe(0)
  })

  it('do not take a room that came when no run tried or waited, or that another run is done with', async () => {
    const queue = new CapacityQueue()
    queue.noteRoom()
    await queue.during(async () => queue.noteRoom())
    const stop = new AbortController()
    let woken = 0

    const waiting = waitIn(queue, 'a', LONG, stop.signal).then(() => (woken += 1))
    await new Promise(setImmediate)

    expect([woken, queue.length]).toEqual([0, 1])
    stop.abort(new Error('over'))
    await expect(waiting).rejects.toThrow('over')
  })

  it('leave the room to one that may try before one that may not yet', async () => {
    const queue = new CapacityQueue()
    const woken: string[] = []
    const patience = { atLeastMs: 60_000, atMostMs: 120_000 }
    const stop = new AbortController()
    waitIn(queue, 'first', patience, stop.signal).catch(() => undefined)
    const second = waitIn(queue, 'second', LONG, never).then(() => woken.push('second'))

    queue.noteRoom()
    await second

    expect([woken, queue.length]).toEqual([['second'], 1])
    stop.abort()
  })

  it('leave when their run ends', async () => {
    const queue = new CapacityQueue()
    const ended = new AbortController()
    const waiting = waitIn(queue, 'a', LONG, ended.signal)

    ended.abort(new Error('cancelled'))

    await expect(waiting).rejects.toThrow('cancelled')
    await expect(waitIn(queue, 'a', LONG, ended.signal)).rejects.toThrow('cancelled')
    expect(queue.length).toBe(0)
  })
})

describe('the resource that a quota error reports as missing', () => {
  it.each([
    [
      'pods "x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=2, limited: pods=2',
      { resource: 'pods', requested: 1, available: 0 },
    ],
    [
      'exceeded quota: q, requested: limits.memory=1Gi,pods=1, used: limits.memory=3Gi,pods=5, limited: limits.memory=3584Mi,pods=5',
      { resource: 'limits.memory', requested: 2 ** 30, available: 2 ** 29 },
    ],
    [
      'exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=2, limited: requests.cpu=2250m',
      { resource: 'requests.cpu', requested: 0.5, available: 0.25 },
    ],
    [
      `exceeded quota: q, requested: pods=${'9'.repeat(400)}, used: pods=1, limited: pods=1`,
      { resource: 'sandboxes', requested: 1, available: 0 },
    ],
    ['the pool had no sandbox ready', { resource: 'sandboxes', requested: 1, available: 0 }],
    ['exceeded quota: q, requested: pods=many', { resource: 'sandboxes', requested: 1, available: 0 }],
  ])('is read from %s', (message, lack) => {
    expect(lackIn(message)).toEqual(lack)
  })

  it('is parsed in linear time from hostile messages', () => {
    const ms = processorMs(() => {
      for (const piece of ['requested: a=a', 'a=a, ', 'used: ', 'requested: a=a, used: a=a, limited: '])
        lackIn(`exceeded quota ${piece.repeat(1_000)}`)
    })

    expect(ms).toBeLessThan(500)
  })
})
