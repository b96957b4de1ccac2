import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Store, Transaction } from '../../runtime/store/store.ts'
import { alice, aRun, follow, shell, startService, typesOf } from './service-rig.ts'

/** The commit of a run's beginning fails, and no other. */
function failBeginnings(store: Store): void {
  const { transaction } = store
  const refusing = (tx: Transaction): Transaction => ({
    ...tx,
    changeRunState: async (id, move, facts) => {
      if (move.to === 'running') throw new Error('the beginning is refused')
      return tx.changeRunState(id, move, facts)
    },
  })
  Object.assign(store, {
    transaction: <T>(work: (tx: Transaction) => Promise<T>) => transaction((tx) => work(refusing(tx))),
  })
}

it.each([
  ['does not run if the start of its run is not committed', true],
  ['runs if the start is committed', false],
])('the first turn, sent before the start is committed, %s', async (_what, fails) => {
  const { service, store, aWorkspace, close } = await startService()
  try {
    if (fails) failBeginnings(store)
    const path = aWorkspace()
    const { id } = await service.startRun(alice, aRun(path, [shell('touch done')]))

    const events = await follow(service, id)

    expect(existsSync(join(path, 'done'))).toBe(!fails)
    expect(typesOf(events).includes('tool.call')).toBe(!fails)
    expect(typesOf(events)).toContain(fails ? 'run.failed' : 'run.outcome')
  } finally {
    await close()
  }
})
