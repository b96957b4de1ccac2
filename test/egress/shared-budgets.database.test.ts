import { describe, expect, it, onTestFinished } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { ByteShares } from '../../runtime/api/egress/byte-shares.ts'
import { ModelBudgets } from '../../runtime/api/egress/model-budgets.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { givenRun } from '../store/rows.ts'
import { openAt } from '../store/store-under-test.ts'

const postgres = await requestPostgres()
const reason = 'unavailable' in postgres ? postgres.unavailable : undefined

/** Two processes of the API over one database, and a run. */
async function place() {
  if (!('url' in postgres)) throw new Error('no PostgreSQL')
  const url = await createDatabase(postgres.url)
  const stores = [await openAt({ kind: 'postgres', url }), await openAt({ kind: 'postgres', url })] as const
  onTestFinished(async () => {
    for (const store of stores) await store.close()
  })
  const settings = SandboxSettings.parse({ budgets: { tokens: 5000 } })
  const runId = await givenRun(stores[0], { settings, state: 'running' })
  await stores[0].transaction((tx) => tx.changeRun(runId, { generation: 1 }))
  return { stores, runId }
}

const sum = (amounts: readonly number[]) => amounts.reduce((total, amount) => total + amount, 0)

describe.skipIf(reason !== undefined)(
  `two processes of the API over one database${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    it('never grant more bytes than the run has, and grant settled bytes again', async () => {
      const { stores, runId } = await place()
      const all = stores.map((store) => new ByteShares({ store, limit: 1000, leastShare: 90 }))
      const take = { runId, generation: 1, missing: 0 }

      const shares = await Promise.all(
        Array.from({ length: 40 }, (_, index) => all[index % 2]?.take(take) ?? Promise.reject()),
      )

      expect(sum(shares.map(({ granted }) => granted))).toBe(1000)
      expect(shares.filter(({ isLast }) => !isLast)).toHaveLength(11)
      await stores[1].transaction(async (tx) => {
        await tx.readRun(runId)
        await all[1]?.settle(tx, runId, { unused: 70 })
      })
      expect(await all[0]?.take(take)).toEqual({ granted: 70, isLast: true })
      expect(await all[0]?.take({ ...take, generation: 2 })).toEqual({ granted: 0, isLast: true })
    })

    it('never reserve more tokens than the run has', async () => {
      const { stores, runId } = await place()
      const budgets = stores.map((store) => new ModelBudgets(store))
      const reserve = (index: number) =>
        budgets[index % 2]?.reserve({
          ...{ runId, generation: 1 },
          reservation: { id: crypto.randomUUID(), tokens: 600 },
        })

      const decisions = await Promise.all(Array.from({ length: 20 }, (_, index) => reserve(index)))

      expect(decisions.filter((decision) => decision?.ok)).toHaveLength(8)
    })
  },
)
