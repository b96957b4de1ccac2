import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { RunState } from '../../contracts/api.ts'
import { SCRAPE_INTERVAL } from '../../contracts/pod-monitor.ts'
import { EventLoopMonitor } from '../../runtime/api/metrics/event-loop-lag.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { renderMetrics } from '../../runtime/api/runs/reads/metrics.ts'
import { REAPER, ReaperFigures, reap, startReaper } from '../../runtime/api/runs/replicas/reaper.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { DeploymentClaims, FoundClaim } from '../../runtime/sandboxes/provider.ts'
import { aClaim, aRun } from '../store/rows.ts'
import { openAt } from '../store/store-under-test.ts'

const NOW = new Date('2026-01-02T12:00:00.000Z')
const LONG_AGO = new Date('2026-01-02T11:00:00.000Z')

const found = (name: string, createdAt = LONG_AGO): FoundClaim => ({
  namespace: 'ns',
  name,
  uid: `uid-${name}`,
  createdAt,
})

async function aReaper(list: () => Promise<FoundClaim[]>) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-reaper-'))
  const store = await openAt({ kind: 'sqlite', file: join(folder, 'store.db') })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const removed: string[] = []
  const claims: DeploymentClaims = {
    onRoom: () => () => undefined,
    list,
    async remove({ name }) {
      if (name.startsWith('stuck')) throw new Error('its node is away')
      if (name.startsWith('gone')) return false
      removed.push(name)
      return true
    },
  }
  const deps = { store, clock: () => NOW, log: silentLog, holder: { id: 'h1' } } as RunDeps
  const audit = createAuditTrail({ keyId: 'k1', derive: () => new Uint8Array(32) } as never)
  const figures = new ReaperFigures()
  const eventLoop = new EventLoopMonitor()
  const metrics = () =>
    renderMetrics({ operations: undefined, active: { taken: 0 }, reaper: figures, eventLoop })
  return { store, removed, deps, parts: { claims, audit, figures }, figures, metrics }
}

type Rig = Awaited<ReturnType<typeof aReaper>>

/** A run with the row of a bound claim. */
async function aClaimOf({ store }: Rig, name: string, state: RunState = 'running'): Promise<string> {
  const run = aRun({ keyId: 'k1' })
  await store.transaction(async (tx) => {
    await tx.insertRun(run)
    await tx.changeRunState(run.id, { from: 'queued', to: 'running' }, { generation: 1 })
    await tx.upsertClaim(
      aClaim(run.id, {
        namespace: 'ns',
        name,
        uid: `uid-${name}`,
        state: 'bound',
        createdAt: LONG_AGO.toISOString(),
      }),
    )
    if (state !== 'running') await tx.changeRunState(run.id, { from: 'running', to: state })
  })
  return run.id
}

const sample = (text: string, name: string) => new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]
const DELETED = 'agentweaver_reaped_claims_total'
const FAILED = 'agentweaver_reap_failures_total'
const LOOKED = 'agentweaver_reaper_last_round_timestamp_seconds'

describe('the figures of the reaper', () => {
  it('count deleted claims and failed deletions, but not claims that were kept or already gone', async () => {
    const rig = await aReaper(async () => [
      found('orphan-1'),
      found('orphan-2'),
      found('alive'),
      found('young', NOW),
      found('stuck'),
      found('gone'),
    ])
    await aClaimOf(rig, 'alive')
    const before = await rig.metrics()

    await reap(rig.deps, rig.parts)

    expect(rig.removed.sort()).toEqual(['orphan-1', 'orphan-2'])
    expect([sample(before, DELETED), sample(before, FAILED)]).toEqual(['0', '0'])
    const after = await rig.metrics()
    expect([sample(after, DELETED), sample(after, FAILED)]).toEqual(['2', '1'])
    const { items } = await rig.store.readAudit({ runId: '', limit: 10 })
    expect(items.map(({ tool }) => tool)).toEqual(['sandbox.reap', 'sandbox.reap'])
    expect(before).toContain(`# TYPE ${DELETED} counter`)
  })

  it('go on counting from round to round', async () => {
    let round = 0
    const rig = await aReaper(async () => [found(`orphan-${++round}`)])

    await reap(rig.deps, rig.parts)
    await reap(rig.deps, rig.parts)

    expect(sample(await rig.metrics(), DELETED)).toBe('2')
  })

  it('report the last successful look since the start, and nothing without a reaper', async () => {
    let isDown = true
    const rig = await aReaper(async () => {
      if (isDown) throw new Error('the API server is away')
      return []
    })
    expect(await rig.metrics()).not.toContain(LOOKED)

    const idle = startReaper({ ...rig.deps, clock: () => LONG_AGO }, rig.parts)
    await idle.stop()
    await expect(reap(rig.deps, rig.parts)).rejects.toThrow('away')
    const whileDown = sample(await rig.metrics(), LOOKED)
    isDown = false
    await reap(rig.deps, rig.parts)

    expect(whileDown).toBe(String(LONG_AGO.getTime() / 1000))
    expect(sample(await rig.metrics(), LOOKED)).toBe(String(NOW.getTime() / 1000))
  })

  it('stand at zero for several collections before the first deletion can be', () => {
    expect(REAPER.everyMs).toBeGreaterThanOrEqual(3 * 1_000 * Number.parseInt(SCRAPE_INTERVAL, 10))
  })
})

describe('the reaper', () => {
  it.each<[RunState, boolean]>([
    ['queued', true],
    ['pending_capacity', true],
    ['suspended', true],
    ['running', false],
    ['starting', false],
  ])('deletes the claim of a run that is %s: %s', async (state, isDeleted) => {
    const rig = await aReaper(async () => [found('left')])
    await aClaimOf(rig, 'left', state)

    await reap(rig.deps, rig.parts)

    expect(rig.removed).toEqual(isDeleted ? ['left'] : [])
  })

  it('releases the row of a claim that is gone from the cluster, unless its run has it', async () => {
    const rig = await aReaper(async () => [])
    await aClaimOf(rig, 'left', 'suspended')
    await aClaimOf(rig, 'alive')

    await reap(rig.deps, rig.parts)

    expect((await rig.store.listClaims(['bound'])).map(({ name }) => name)).toEqual(['alive'])
    expect((await rig.store.listClaims(['released'])).map(({ name }) => name)).toEqual(['left'])
  })
})
