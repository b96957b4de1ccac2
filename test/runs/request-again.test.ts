import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { requestAgain } from '../../runtime/api/runs/launch/request.ts'
import { recordOf } from '../../runtime/audit/record.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { givenRun } from '../store/rows.ts'

it('records the outcome of a setup command whose launch another driver did not finish', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-request-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const runId = await givenRun(store, { state: 'starting' })
  await store.transaction(async (tx) => {
    await tx.changeRun(runId, { generation: 1 })
    const request = { command: 'npm ci' }
    await tx.insertCommand({ id: 'cmd_1', runId, request, actor: 'agentweaver', state: 'running' })
  })
  const run = await store.readRun(runId)
  const deps = {
    store,
    provider: { namespace: 'local', draft: () => undefined },
    keys: await loadDeploymentKeys(join(folder, 'keys')),
    clock: () => new Date(),
    log: silentLog,
  } as unknown as RunDeps

  const { claim } = await requestAgain(deps, run as Exclude<typeof run, undefined>)

  expect(claim.generation).toBe(2)
  expect(await store.transaction((tx) => tx.listRunningCommands(runId))).toEqual([])
  const records = (await store.readAudit({ runId, limit: 10 })).items.map(recordOf)
  expect(records).toMatchObject([
    { kind: 'outcome', callId: 'cmd_1', actor: 'agentweaver', outcome: 'unknown (the launch was repeated)' },
  ])
})
