import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, it, onTestFinished } from 'vitest'
import { pickNext } from '../../../runtime/api/runs/queue/pick-next.ts'
import { takeOverRuns } from '../../../runtime/api/runs/replicas/takeover.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { HOLDER_LEASE } from '../../../runtime/store/holder-lease.ts'
import { openStore } from '../../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../../runtime/store/store.ts'
import { createDatabase, requestPostgres } from '../../helpers/postgres.ts'
import { givenRun } from '../../store/rows.ts'
import { queueDeps } from './queue-deps.ts'

const postgres = await requestPostgres()
const reason = 'unavailable' in postgres ? postgres.unavailable : undefined

async function aDatabase() {
  if (!('url' in postgres)) throw new Error('no PostgreSQL')
  const url = await createDatabase(postgres.url)
  const store = await openStore({ kind: 'postgres', url }, { log: silentLog })
  onTestFinished(() => store.close())
  return { url, store }
}

/** Returns the lines that the process prints once it is released. */
async function aPicker(url: string, holder: string) {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'fixtures/picker.ts'), url, holder], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  expect((await lines.next()).value).toBe('ready')
  return async () => {
    child.stdin.end()
    return Array.fromAsync({ [Symbol.asyncIterator]: () => lines })
  }
}

const depsOf = (store: Store, holder: string) =>
  queueDeps(store, { holder, limits: { maxRuns: 60, maxRunsPerOwner: 20 } })

describe.skipIf(reason !== undefined)(
  `two processes on one database${reason ? ` (skipped: ${reason})` : ''}`,
  { timeout: 120_000 },
  () => {
    it('never pick the same run, and keep the limits of the deployment together', async () => {
      const { url, store } = await aDatabase()
      for (let index = 0; index < 100; index += 1) await givenRun(store, { owner: `owner-${index % 4}` })
      const pickers = await Promise.all([aPicker(url, 'one'), aPicker(url, 'two')])

      const picked = await Promise.all(pickers.map((release) => release()))

      expect(new Set(picked.flat()).size).toBe(60)
      expect(picked.flat()).toHaveLength(60)
      const counts = await store.transaction((tx) => tx.countRunsUnderWay({ states: ['starting'] }))
      expect([...counts.values()]).toEqual([15, 15, 15, 15])
      const claims = await store.listClaims(['requested'])
      expect(new Set(claims.map(({ runId }) => runId)).size).toBe(60)
    })

    it('continue a run whose process died between the pick and the launch', async () => {
      const { store } = await aDatabase()
      const id = await givenRun(store)
      await store.acquireLease(`${HOLDER_LEASE}dead`, 'dead', 0)
      await pickNext(depsOf(store, 'dead'), [{ lane: 'agent', hasRoom: false }])
      const taken: RunRow[] = []

      await takeOverRuns(depsOf(store, 'alive'), { launch: (run) => taken.push(run) })

      expect(taken).toMatchObject([{ id, state: 'starting', holder: 'alive', generation: 1 }])
      expect(await pickNext(depsOf(store, 'alive'), [{ lane: 'agent', hasRoom: false }])).toBeUndefined()
    })

    it('order the queue by the clock of the database, also if their own clocks differ', async () => {
      const { store } = await aDatabase()
      const late = depsOf(store, 'late')
      const first = await givenRun(store, { owner: 'a' })
      await givenRun(store, { owner: 'b' })

      const picked = await pickNext({ ...late, clock: () => new Date('1999-01-01') }, [
        { lane: 'agent', hasRoom: false },
      ])

      expect(picked?.run.id).toBe(first)
      const { nowMs } = await store.viewQueue({ lane: 'agent', underWay: { states: ['starting'] } })
      expect(nowMs).toBeGreaterThan(Date.parse('2026-01-01'))
    })
  },
)
