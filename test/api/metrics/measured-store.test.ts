import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { measuredStore } from '../../../runtime/api/metrics/measured-store.ts'
import { createProcessMetrics } from '../../../runtime/api/metrics/process-metrics.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { openStore } from '../../../runtime/store/open-store.ts'
import type { Transaction } from '../../../runtime/store/store.ts'
import { aClaim, givenRun } from '../../store/rows.ts'

async function aRig() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-measured-'))
  const bare = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await bare.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const metrics = createProcessMetrics()
  const store = measuredStore(bare, metrics)
  const run = await givenRun(bare, { state: 'queued' })
  /** The value of a sample. */
  const sample = async (name: string) => {
    const line = (await metrics.registry.metrics()).split('\n').find((text) => text.startsWith(`${name} `))
    return line === undefined ? undefined : Number(line.slice(name.length + 1))
  }
  return { store, run, sample }
}

const failed = (tx: Transaction, run: string) =>
  tx.appendEvents(run, [{ event: { type: 'run.failed', data: { code: 'sandbox_lost', message: 'gone' } } }])

const FAILURES = 'agentweaver_run_failures_total{code="sandbox_lost"}'
const commits = (result: string) => `agentweaver_store_commit_duration_seconds_count{result="${result}"}`

it('counts the committed rows of a transaction, and measures its time', async () => {
  const { store, run, sample } = await aRig()

  await store.transaction((tx) => failed(tx, run))

  expect(await sample(FAILURES)).toBe(1)
  expect(await sample(commits('committed'))).toBe(1)
})

it('counts nothing of a transaction that was rolled back', async () => {
  const { store, run, sample } = await aRig()

  const work = store.transaction(async (tx) => {
    await failed(tx, run)
    throw new Error('no')
  })

  await expect(work).rejects.toThrow('no')
  expect(await sample(FAILURES)).toBe(0)
  expect(await sample(commits('rolled_back'))).toBe(1)
})

it('measures a launch, the binding, a turn and the wait for a person', async () => {
  const { store, run, sample } = await aRig()
  await store.transaction((tx) => tx.upsertClaim(aClaim(run, { state: 'requested' })))
  const data = { podName: 'p', podUid: 'u', claimName: 'c', launch: 'cold', bindMs: 1_500 } as const
  await store.transaction((tx) =>
    tx.appendEvents(run, [{ event: { type: 'sandbox.execution_pod.bound', data } }]),
  )
  await store.transaction((tx) =>
    tx.appendEvents(run, [{ event: { type: 'run.started', data: { generation: 1 } } }]),
  )
  const turn = { turnId: 't1' }
  await store.transaction((tx) => tx.appendEvents(run, [{ event: { type: 'turn.started', data: turn } }]))
  const createdAt = new Date(Date.now() - 60_000).toISOString()
  await store.transaction((tx) =>
    tx.insertApproval({
      ...{ requestId: 'apr_1', runId: run, callId: 'c1', kind: 'shell', tool: 'run_command', binding: 'b' },
      ...{ redacted: false, state: 'pending', expiresAt: createdAt, createdAt },
    }),
  )
  await store.transaction(async (tx) => {
    await tx.readApproval(run, 'apr_1')
    await tx.decideApproval('apr_1', { state: 'approved' })
  })
  await store.transaction((tx) =>
    tx.appendEvents(run, [{ event: { type: 'turn.ended', data: { ...turn, state: 'completed' } } }]),
  )

  expect(await sample('agentweaver_launch_duration_seconds_count{launch="cold"}')).toBe(1)
  expect(await sample('agentweaver_bind_duration_seconds_sum{launch="cold"}')).toBe(1.5)
  expect(await sample('agentweaver_turn_duration_seconds_count{state="completed"}')).toBe(1)
  const waited = await sample('agentweaver_approval_wait_seconds_sum{kind="shell",decision="approved"}')
  expect(waited).toBeGreaterThanOrEqual(60)
  expect(waited).toBeLessThan(600)
})
