import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { RunDeps, RunLimits } from '../../../runtime/api/runs/deps.ts'
import { transition } from '../../../runtime/api/runs/machine/transition.ts'
import { inOrder, pickNext } from '../../../runtime/api/runs/queue/pick-next.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { openStore } from '../../../runtime/store/open-store.ts'
import type { NewRun } from '../../../runtime/store/store.ts'
import { aRun, givenRun } from '../../store/rows.ts'
import { queueDeps } from './queue-deps.ts'

const LANES = [
  { lane: 'agent', hasRoom: false },
  { lane: 'command', hasRoom: false },
] as const

async function aQueue(limits: Partial<RunLimits> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-pick-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const deps = queueDeps(store, { limits: { maxRuns: 100, maxRunsPerOwner: 100, ...limits } })
  const pick = () => pickNext(deps, LANES)
  let queued = 0
  return {
    store,
    deps,
    pick,
    /** Writes settings that no release has. */
    async damage(id: string) {
      const db = new DatabaseSync(join(folder, 'store.db'))
      db.prepare('update runs set settings_json = ? where id = ?').run('[]', id)
      db.close()
    },
    // Ids increase with time, as in the product: runs that are queued in one millisecond are picked by id.
    queue: (owner: string, over: Partial<NewRun> = {}) =>
      givenRun(store, { id: `run_${String(queued++).padStart(32, '0')}`, owner, ...over }),
    /** Owners of all runs that can start, in their order. */
    async order() {
      const owners: string[] = []
      for (let one = await pick(); one; one = await pick()) owners.push(one.run.owner)
      return owners.join('')
    },
    end: (id: string) =>
      store.transaction(async (tx) => {
        const run = await tx.readRun(id)
        if (run) await transition(tx, run, { event: { kind: 'ended', state: 'cancelled' } })
      }),
  }
}

describe('the next run of the queue', () => {
  it('is the one that was queued first', async () => {
    const { queue, pick } = await aQueue()
    const ids = [await queue('a'), await queue('a'), await queue('a')]

    const picked = [await pick(), await pick(), await pick(), await pick()]

    expect(picked.map((one) => one?.run.id)).toEqual([...ids, undefined])
  })

  it('is of the owner with the fewest runs, so that one owner with many runs does not delay another', async () => {
    const { queue, order } = await aQueue()
    for (const owner of 'aaabcb') await queue(owner)

    expect(await order()).toBe('abcaba')
  })

  it('is of the owner that has waited longest, if only one run can be under way', async () => {
    const { queue, pick, end } = await aQueue({ maxRuns: 1 })
    for (const owner of 'aaaabbc') await queue(owner)
    let order = ''
    for (let one = await pick(); one; one = await pick()) {
      order += one.run.owner
      await end(one.run.id)
    }

    expect(order).toBe('abcabaa')
  })

  it('is not delayed by a thousand runs of another owner', async () => {
    const { queue, pick, store } = await aQueue()
    await store.transaction(async (tx) => {
      for (let index = 0; index < 1_000; index += 1) await tx.insertRun(aRun({ owner: 'many' }))
    })
    await pick()
    const id = await queue('few')

    expect((await pick())?.run.id).toBe(id)
  }, 120_000)

  it('has a sandbox requested and this process as its driver, in the same commit', async () => {
    const { queue, pick, store } = await aQueue()
    const id = await queue('a')

    const picked = await pick()

    expect(picked).toMatchObject({ run: { id, state: 'starting', generation: 1, holder: 'me' } })
    expect(await store.readRun(id)).toEqual(picked?.run)
    expect(await store.listClaims(['requested'])).toMatchObject([{ runId: id, ...picked?.request.claim }])
  })

  it('is undefined while the owner or the deployment has no place, and a run after another one has ended', async () => {
    const { queue, pick, end } = await aQueue({ maxRuns: 2, maxRunsPerOwner: 1 })
    const ids = [await queue('a'), await queue('a'), await queue('b'), await queue('c')]

    const first = [await pick(), await pick(), await pick()]
    await end(ids[2] ?? '')
    const second = [await pick(), await pick()]

    expect(first.map((one) => one?.run.id)).toEqual([ids[0], ids[2], undefined])
    expect(second.map((one) => one?.run.id)).toEqual([ids[3], undefined])
  })

  it('is not a run with a decided end', async () => {
    const { queue, pick, store } = await aQueue()
    const id = await queue('a')
    const other = await queue('b')
    await store.transaction((tx) => tx.changeRun(id, { ending: { state: 'cancelled', by: 'a' } }))

    expect((await pick())?.run.id).toBe(other)
    expect(await pick()).toBeUndefined()
  })

  it('is the one behind a run that this release cannot read', async () => {
    const { queue, pick, damage } = await aQueue()
    const [damaged, next] = [await queue('a'), await queue('b')]
    await damage(damaged)

    expect((await pick())?.run.id).toBe(next)
  })

  it('is not a cancelled run, and the next run of its owner takes its turn', async () => {
    const { queue, end, order } = await aQueue()
    const head = await queue('a')
    await queue('a')
    await end(head)

    expect(await order()).toBe('a')
  })

  it('is a run that continues before younger runs of its owner', async () => {
    const { queue, pick, store } = await aQueue({ maxRunsPerOwner: 1 })
    const id = await queue('a')
    await pick()
    await queue('a')
    await store.transaction(async (tx) => {
      await tx.changeRunState(id, { from: 'starting', to: 'suspended' })
      await tx.changeRunState(id, { from: 'suspended', to: 'queued' })
    })

    expect((await pick())?.run.id).toBe(id)
  })

  it('is no run of a kind without room until one is due or room is reported, but a run of another kind', async () => {
    const { queue, pick, store, deps } = await aQueue()
    const id = await queue('a')
    await pick()
    await store.transaction(async (tx) => {
      await tx.changeRunState(id, { from: 'starting', to: 'pending_capacity' })
      await tx.waitForRoom(id, { pauseMs: 0, retryMs: 60_000 })
    })
    await queue('b')
    const command = await queue('c', { kind: 'command' })

    expect((await pick())?.run.id).toBe(command)
    expect(await pick()).toBeUndefined()
    const reported = await pickNext(deps, [{ lane: 'agent', hasRoom: true }])
    expect(reported?.run.id).toBe(id)
  })

  it('is a run that found no room, when its next attempt is due', async () => {
    const { queue, pick, store } = await aQueue()
    const id = await queue('a')
    await pick()
    await store.transaction(async (tx) => {
      await tx.changeRunState(id, { from: 'starting', to: 'pending_capacity' })
      await tx.waitForRoom(id, { pauseMs: 0, retryMs: 0 })
    })
    await queue('b')

    expect((await pick())?.run.id).toBe(id)
  })

  it('is of another owner while the due run of one owner has no place', async () => {
    const { queue, pick, store } = await aQueue({ maxRunsPerOwner: 1 })
    const waits = await queue('a')
    await pick()
    await store.transaction(async (tx) => {
      await tx.changeRunState(waits, { from: 'starting', to: 'pending_capacity' })
      await tx.waitForRoom(waits, { pauseMs: 0, retryMs: 0 })
    })
    // It is under way, so its owner has no place for the run that is due.
    await givenRun(store, { owner: 'a', kind: 'command', state: 'running' })
    const other = await queue('b')

    expect((await pick())?.run.id).toBe(other)
  })

  it('is never a run of a service that a command started, except for that service', async () => {
    const { queue, pick, deps } = await aQueue()
    const id = await queue('a', { endsWithService: true })

    expect(await pick()).toBeUndefined()
    expect((await pickNext(deps, [{ lane: 'agent/temporary', hasRoom: false }]))?.run.id).toBe(id)
  })
})

describe('places', () => {
  it('of a service that drives its runs alone are not taken by runs that an earlier service left', async () => {
    const { queue, store, deps } = await aQueue({ maxRuns: 1 })
    await givenRun(store, { state: 'running', holder: 'a dead process' })
    await queue('a')

    const alone = { ...deps, provider: { ...deps.provider, shared: undefined } } as unknown as RunDeps
    expect(await pickNext(deps, LANES)).toBeUndefined()
    expect(await pickNext(alone, LANES)).toBeDefined()
  })
})

it('orders runs of one moment by their ids, the same way in every process', () => {
  const heads = ['c', 'a', 'b'].map((runId) => ({ runId, owner: runId, turnMs: 1, lane: 'agent' as const }))

  expect(inOrder(heads, new Map(), { maxRunsPerOwner: 1 }).map(({ runId }) => runId)).toEqual(['a', 'b', 'c'])
})
