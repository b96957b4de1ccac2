import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ForkRun } from '../../contracts/api.ts'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { Approvals } from '../../runtime/api/runs/gates/approvals.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { noRestrictions } from '../helpers/no-restrictions.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { alice, aRun, bob, dataOf, follow, shell, startService } from './service-rig.ts'

const postgres = await requestPostgres()
const reason = 'unavailable' in postgres ? postgres.unavailable : undefined

/** A service that drives runs, and the store as another process has it. */
async function twoProcesses() {
  if (!('url' in postgres)) throw new Error('no PostgreSQL')
  const url = await createDatabase(postgres.url)
  const driver = await startService({ DATABASE_URL: url })
  const other = await openStore({ kind: 'postgres', url }, { log: silentLog })
  onTestFinished(async () => {
    await other.close()
    await driver.close()
  })
  return { driver, other }
}

describe.skipIf(reason !== undefined)(
  `what another process writes of a run${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    it('reaches its sandbox when it is a decision', async () => {
      const { driver, other } = await twoProcesses()
      const audit = createAuditTrail(await loadDeploymentKeys(join(driver.config.stateDir, 'keys')))
      const run = aRun(driver.aWorkspace(), [shell('mkdir build && rm -rf build && echo removed')])
      const { id } = await driver.service.startRun(alice, run)

      const events = await follow(driver.service, id, async (event) => {
        if (event.type !== 'shell.approval_required') return
        const approvals = new Approvals(
          { store: other, clock: () => new Date(), restrictions: noRestrictions() },
          audit,
        )
        const { requestId } = event.data
        await approvals.decide(bob, id, { requestId, outcome: 'approved', by: 'bob', scope: 'once' })
      })

      expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['removed\n'])
    })

    it('does not change a fork of it', async () => {
      const { driver, other } = await twoProcesses()
      const turns = [[shell('echo first > log.txt')], [shell('cat log.txt')]]
      const source = await driver.service.startRun(
        alice,
        aRun('', [], { workspace: { kind: 'empty' }, agent: { kind: 'scripted', plan: { turns } } }),
      )
      await follow(driver.service, source.id)

      const { id } = await driver.service.forkRun(alice, source.id, ForkRun.parse({ task: 'again' }))
      await other.deleteBlobs(source.id)

      const events = await follow(driver.service, id)
      expect(dataOf(events, 'command.output').map(({ chunk }) => chunk)).toEqual(['first\n'])
    })

    it('ends it when it is an end', async () => {
      const { driver, other } = await twoProcesses()
      const { id } = await driver.service.startRun(
        alice,
        aRun(driver.aWorkspace(), [{ kind: 'wait', ms: 60_000 }]),
      )

      const events = await follow(driver.service, id, async (event) => {
        if (event.type !== 'turn.started') return
        await other.transaction(async (tx) => {
          await tx.changeRun(id, { ending: { state: 'cancelled', by: 'bob' } })
          tx.announce(id)
        })
      })

      expect(dataOf(events, 'run.cancelled')).toEqual([{ by: 'bob' }])
    })
  },
)
