import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../devcluster/service/postgres-server.ts'
import type { RunDeps } from '../runtime/api/runs/deps.ts'
import { timeOrderedId } from '../runtime/api/runs/ids.ts'
import { candidates, pickNext } from '../runtime/api/runs/queue/pick-next.ts'
import { createRunViews } from '../runtime/api/runs/queue/queue-view.ts'
import { Restrictions } from '../runtime/api/runs/restrictions/restrictions.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { openStore, type StoreLocation } from '../runtime/store/open-store.ts'
import type { NewRun, RunRow, Store, Transaction } from '../runtime/store/store.ts'
import { type Bench, type Figure, figure, timed } from './harness.ts'
import { seededRun } from './subjects/seeded-runs.ts'

/** Milliseconds for one decision at 10,000 waiting runs. */
const BAR = 1
const WAITING = 10_000
const UNDER_WAY = 100
const ROUNDS = 200
const WARM_UP = 20
const LANES = [
  { lane: 'agent', hasRoom: false },
  { lane: 'command', hasRoom: false },
] as const

/** Owners of the waiting runs: nearly all of one owner, or each of another one. */
const OWNERS = {
  'one owner': (index: number) => (index < WAITING - 100 ? 'owner-0' : `owner-${index}`),
  'each of another owner': (index: number) => `owner-${index}`,
} as const

/** Decides which run starts next, with 100 runs under way. */
export const bench: Bench = {
  name: 'queue',
  run: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bench-queue-'))
    const postgres = await startPostgres()
    try {
      const figures: Figure[] = []
      for (const shape of ['one owner', 'each of another owner'] as const) {
        figures.push(...(await measure({ kind: 'sqlite', file: join(folder, `${shape}.db`) }, shape)))
        figures.push(...(await measure({ kind: 'postgres', url: postgres.url }, shape)))
      }
      return figures
    } finally {
      await postgres.stop()
      rmSync(folder, { recursive: true })
    }
  },
}

async function measure(location: StoreLocation, shape: keyof typeof OWNERS): Promise<Figure[]> {
  const store = await openStore(location, { log: silentLog })
  try {
    const last = await fill(store, OWNERS[shape])
    const deps = depsOf(store)
    const decision = await samplesOf((tx) => candidates(tx, deps, LANES), store)
    const pick = await repeated(() => pickNext(deps, LANES))
    const view = await repeated(() => createRunViews(deps).of(last))
    const name = `queue (${store.engine}, ${shape})`
    const stated = { unit: 'ms', measure: 'absolute', bar: Number.POSITIVE_INFINITY } as const
    return [
      figure({ name, unit: 'ms', measure: 'absolute', bar: BAR, samples: { baseline: [], value: decision } }),
      figure({ name: `${name}: pick`, ...stated, samples: { baseline: [], value: pick } }),
      figure({ name: `${name}: view`, ...stated, samples: { baseline: [], value: view } }),
    ]
  } finally {
    await empty(store)
    await store.close()
  }
}

const depsOf = (store: Store) =>
  ({
    store,
    provider: { shared: {}, namespace: 'bench', draft: (name: string) => ({ name }) },
    keys: { keyId: 'bench' },
    clock: () => new Date(),
    limits: { maxRuns: 10 * UNDER_WAY, maxRunsPerOwner: UNDER_WAY },
    holder: { id: 'bench' },
    restrictions: new Restrictions({ store, log: silentLog }),
  }) as unknown as RunDeps

/** Samples of work inside one transaction each: its begin and its end belong to the pick, not to the decision. */
async function samplesOf(work: (tx: Transaction) => Promise<unknown>, store: Store): Promise<number[]> {
  const samples: number[] = []
  for (let round = -WARM_UP; round < ROUNDS; round += 1) {
    const ms = await store.transaction((tx) => timed(() => work(tx)))
    if (round >= 0) samples.push(ms)
  }
  return samples
}

async function repeated(work: () => Promise<unknown>): Promise<number[]> {
  const samples: number[] = []
  for (let round = -WARM_UP; round < ROUNDS; round += 1) {
    const ms = await timed(work)
    if (round >= 0) samples.push(ms)
  }
  return samples
}

/** Returns the run that was queued last. */
async function fill(store: Store, ownerOf: (index: number) => string): Promise<RunRow> {
  return store.transaction(async (tx) => {
    for (let index = 0; index < UNDER_WAY; index += 1)
      await tx.insertRun(aRun({ owner: `owner-${index % 50}`, state: 'running' }))
    let last: RunRow | undefined
    for (let index = 0; index < WAITING; index += 1)
      last = await tx.insertRun(aRun({ owner: ownerOf(index) }))
    if (!last) throw new Error('no run was queued')
    return last
  })
}

/** The next shape uses the same database. */
async function empty(store: Store): Promise<void> {
  for (;;) {
    const { items } = await store.listRuns({ states: ['queued', 'running', 'starting'], limit: 200 })
    if (items.length === 0) return
    await store.transaction(async (tx) => {
      for (const { id, state } of items) await tx.changeRunState(id, { from: state, to: 'cancelled' })
    })
  }
}

/** Ids increase with time, also across the shapes, which share a database. */
const aRun = (over: Partial<NewRun>): NewRun =>
  seededRun(0, { id: timeOrderedId('run', new Date()), agentSpec: null, interactive: false, ...over })
