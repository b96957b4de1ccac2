import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { createActiveRuns } from '../../runtime/api/runs/drive/active-runs.ts'
import { Approvals } from '../../runtime/api/runs/gates/approvals.ts'
import { claimName } from '../../runtime/api/runs/ids.ts'
import { Restrictions } from '../../runtime/api/runs/restrictions/restrictions.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { EventRedactor } from '../../runtime/redaction/event-redactor.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { RunRow } from '../../runtime/store/store.ts'
import { seededRun } from './seeded-runs.ts'

/** Drives interactive runs that wait for their next turn. Prints the memory before and with them, in bytes. */
const [socketPath = '', count = '0'] = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'bench-open-'))
const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
const keys = await loadDeploymentKeys(join(folder, 'keys'))
const audit = createAuditTrail(keys)
const redactor = createRedactor({ secrets: [], pii: true })
const day = 86_400_000
const deps = {
  ...{ store, keys, log: silentLog, clock: () => new Date(), holder: { id: 'bench' } },
  limits: { approvalTtlMs: day, idleTimeoutMs: day, stallTimeoutMs: day, runTimeoutMs: day, maxRuns: 10_000 },
  restrictions: new Restrictions({ store, log: silentLog }),
  governance: { forRun: () => ({ touched: { secret: false } }) },
  openRedactor: () => new EventRedactor(redactor),
  redactText: (text: string) => text,
  provider: {
    namespace: 'local',
    shared: {
      attach: async () => ({
        ...{
          address: { socketPath },
          instanceId: 'i',
          lost: new Promise(() => undefined),
          detach: () => undefined,
        },
        uids: { sandbox: 's' },
      }),
    },
  },
} as unknown as RunDeps
const active = createActiveRuns(deps, { audit, approvals: new Approvals(deps, audit) }, () => undefined)

async function givenRun(number: number): Promise<RunRow> {
  const run = seededRun(number, { holder: 'bench' })
  const { id } = run
  const claim = { namespace: 'local', name: claimName('agent', id, 1), generation: 1 }
  const at = new Date().toISOString()
  await store.transaction(async (tx) => {
    await tx.insertRun(run)
    await tx.upsertClaim({ ...claim, runId: id, keyId: 'k', state: 'requested', uid: id, createdAt: at })
    await tx.bindClaim(claim, { uid: id, sandboxUid: `s-${id}`, podUid: `p-${id}` })
    await tx.changeRunState(id, { from: 'queued', to: 'waiting' })
    await tx.changeRun(id, { generation: 1, startedAt: at, waiting: { for: 'turn', since: at } })
  })
  const row = await store.readRun(id)
  if (!row) throw new Error('the run is not there')
  return row
}

const memory = () => {
  globalThis.gc?.()
  return process.memoryUsage.rss()
}
/** The first run loads the code that every run uses. */
await active.launch(await givenRun(0)).serving
const rows: RunRow[] = []
for (let number = 1; number <= Number(count); number++) rows.push(await givenRun(number))
const before = memory()
await Promise.all(rows.map((row) => active.launch(row).serving))
process.stdout.write(`${JSON.stringify({ before, after: memory() })}\n`)
rmSync(folder, { recursive: true })
process.exit(0)
