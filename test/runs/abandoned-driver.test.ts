import { expect, it } from 'vitest'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { createActiveRuns } from '../../runtime/api/runs/drive/active-runs.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { RunRow } from '../../runtime/store/store.ts'
import { noRestrictions } from '../helpers/no-restrictions.ts'
import { until } from '../helpers/until.ts'

const RUN = { id: 'run_1', kind: 'agent', state: 'starting', generation: 1, holder: 'this process' } as RunRow

/** Drivers with a store whose transactions finish when the test decides. */
function slowlyDriven() {
  const transactions: PromiseWithResolvers<never>[] = []
  const store = {
    onEvents: () => () => undefined,
    readRun: async () => RUN,
    transaction: () => {
      const transaction = Promise.withResolvers<never>()
      transactions.push(transaction)
      return transaction.promise
    },
  }
  const limits = { idleTimeoutMs: 600_000, stallTimeoutMs: 600_000, runTimeoutMs: 600_000 }
  const provider = { shared: {}, namespace: 'sandboxes', draft: () => undefined }
  const restrictions = noRestrictions()
  const keys = { keyId: 'k' }
  const deps = { store, provider, limits, log: silentLog, keys, clock: () => new Date(), restrictions }
  const active = createActiveRuns(deps as unknown as RunDeps, {} as never, () => undefined)
  return { active, transactions }
}

it('a run that this process takes over from itself gets a new driver, after the old one has stopped', async () => {
  const { active, transactions } = slowlyDriven()
  const abandoned = active.launch(RUN)
  await until('the old driver waits for the store', () => transactions.length === 1)
  abandoned.abandon()
  expect(active.get(RUN.id)).toBeUndefined()

  const driver = active.launch(RUN)

  expect(driver).not.toBe(abandoned)
  expect(active.get(RUN.id)).toBe(driver)
  expect(transactions).toHaveLength(1)
  transactions[0]?.reject(new SandboxError('unavailable', 'the store is slow'))
  await abandoned.finished
  await until('the new driver works', () => transactions.length === 2)
  expect(active.get(RUN.id)).toBe(driver)
  driver.abandon()
  transactions[1]?.reject(new SandboxError('conflict', 'the test ends'))
  await driver.finished
})

it('a run that is driven already keeps its driver', async () => {
  const { active, transactions } = slowlyDriven()
  const driver = active.launch(RUN)

  expect(active.launch(RUN)).toBe(driver)

  await until('the driver waits for the store', () => transactions.length === 1)
  driver.abandon()
  transactions[0]?.reject(new SandboxError('conflict', 'the test ends'))
  await driver.finished
})

it('a run that this process takes over under its new name leaves the driver under the former name', async () => {
  const { active, transactions } = slowlyDriven()
  const former = active.launch(RUN)
  await until('the former driver waits for the store', () => transactions.length === 1)

  const driver = active.launch({ ...RUN, holder: 'the new name' })

  expect(driver).not.toBe(former)
  expect(former.isAbandoned).toBe(true)
  expect(active.get(RUN.id)).toBe(driver)
  transactions[0]?.reject(new SandboxError('conflict', 'another process drives the run'))
  await until('the new driver works', () => transactions.length === 2)
  driver.abandon()
  transactions[1]?.reject(new SandboxError('conflict', 'the test ends'))
  await driver.finished
})
