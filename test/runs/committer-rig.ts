import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { BatchCommitter } from '../../runtime/api/runs/ingest/commit-batch.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { EventRedactor } from '../../runtime/redaction/event-redactor.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { RunRow, Store } from '../../runtime/store/store.ts'
import { noRestrictions } from '../helpers/no-restrictions.ts'
import { givenRun } from '../store/rows.ts'

/** A store with two active runs, and the committer of the first run for each of its drivers. */
export async function startCommitterRig(decide: () => 'allow' | 'deny' = () => 'allow') {
  const folder = mkdtempSync(join(tmpdir(), 'aw-committer-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const audit = createAuditTrail(await loadDeploymentKeys(join(folder, 'keys')))
  const deps: Partial<RunDeps> = {
    store,
    clock: () => new Date(),
    log: silentLog,
    restrictions: noRestrictions(),
    limits: { approvalTtlMs: 60_000 } as RunDeps['limits'],
    governance: {
      version: () => 'p1',
      forRun: () => ({
        decide: () => ({ verdict: decide(), rule: 'test', reasons: ['said so'], matched: [] }),
        observe: () => undefined,
        touched: { secret: false },
      }),
    },
    openRedactor: () => new EventRedactor(createRedactor({ secrets: [], pii: false })),
  }
  const [runId, other] = [await givenRun(store), await givenRun(store)]
  for (const id of [runId, other]) await givenWork(store, id)
  const row = async (): Promise<RunRow> => {
    const run = await store.readRun(runId)
    if (!run) throw new Error('the run is not there')
    return run
  }
  return {
    store,
    runId,
    other,
    row,
    /** Returns the committer of a process that takes over the run now. `over` replaces real dependencies. */
    driver: async (over: Partial<RunDeps> = {}) => {
      const run = await row()
      const after = run.hostSequence - run.hostReread
      return { after, committer: new BatchCommitter({ ...deps, ...over } as RunDeps, audit, { run, after }) }
    },
  }
}

/** A turn and a command that work. */
async function givenWork(store: Store, id: string): Promise<void> {
  await store.transaction(async (tx) => {
    await tx.changeRun(id, { generation: 1 })
    await tx.insertTurn({ id: `turn-of-${id}`, runId: id, state: 'sent', prompt: 'p', final: false })
    await tx.insertCommand({ id: `cmd-of-${id}`, runId: id, request: {}, state: 'running' })
  })
}
