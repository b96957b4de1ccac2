import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { BatchCommitter } from '../../runtime/api/runs/ingest/commit-batch.ts'
import { Restrictions } from '../../runtime/api/runs/restrictions/restrictions.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { EventRedactor } from '../../runtime/redaction/event-redactor.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { seededRun } from './seeded-runs.ts'

const RUNS = 100
const EVENTS_PER_SECOND = 20
const MEASURED_MS = 15_000

/**
 * The control plane's side of busy runs in one process: each run commits the events that have come since its last commit, as
 * its relay does. Prints the delay of each event until its commit, in milliseconds.
 */
const folder = mkdtempSync(join(tmpdir(), 'bench-busy-'))
const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
const audit = createAuditTrail(await loadDeploymentKeys(join(folder, 'keys')))
const deps = {
  ...{ store, log: silentLog, clock: () => new Date(), limits: { approvalTtlMs: 60_000 } },
  restrictions: new Restrictions({ store, log: silentLog }),
  governance: { forRun: () => ({ touched: { secret: false } }) },
  openRedactor: () => new EventRedactor(createRedactor({ secrets: [], pii: true })),
} as unknown as RunDeps

async function drive(number: number, until: number): Promise<number[]> {
  const run = await store.transaction((tx) => tx.insertRun(seededRun(number, { state: 'running' })))
  await store.transaction((tx) => tx.changeRun(run.id, { generation: 1 }))
  const committer = new BatchCommitter(deps, audit, { run, after: 0 })
  const delays: number[] = []
  const begun = performance.now()
  for (let sent = 0; performance.now() < until; ) {
    const due = Math.floor(((performance.now() - begun) / 1000) * EVENTS_PER_SECOND)
    if (due <= sent) {
      await new Promise((resolve) => setTimeout(resolve, 10))
      continue
    }
    const envelopes = Array.from({ length: due - sent }, (_, index) => ({
      sequence: sent + index + 1,
      at: new Date().toISOString(),
      event: { type: 'agent.message', data: { messageId: 'm', text: 'word '.repeat(20) } } as const,
    }))
    await committer.commit({ runId: run.id, generation: 1, envelopes })
    for (const { sequence } of envelopes)
      delays.push(performance.now() - begun - (sequence * 1000) / EVENTS_PER_SECOND)
    sent = due
  }
  return delays
}

process.stdout.write('ready\n')
const until = performance.now() + MEASURED_MS
const delays = await Promise.all(Array.from({ length: RUNS }, (_, number) => drive(number, until)))
process.stdout.write(`${JSON.stringify(delays.flat().map(Math.round))}\n`)
await store.close()
rmSync(folder, { recursive: true })
