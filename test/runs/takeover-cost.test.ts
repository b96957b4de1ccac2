import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Kysely, KyselyPlugin } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { obtainSandbox } from '../../runtime/api/runs/drive/obtain-sandbox.ts'
import { requeueLost } from '../../runtime/api/runs/drive/requeue.ts'
import { endingWhenIdle } from '../../runtime/api/runs/drive/turn-ending.ts'
import { Approvals } from '../../runtime/api/runs/gates/approvals.ts'
import { claimName } from '../../runtime/api/runs/ids.ts'
import { callsSince } from '../../runtime/api/runs/launch/preface.ts'
import { takeOverRuns } from '../../runtime/api/runs/replicas/takeover.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { EventRedactor } from '../../runtime/redaction/event-redactor.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'
import { EventListeners } from '../../runtime/store/event-listeners.ts'
import { migrate } from '../../runtime/store/migrate.ts'
import type { Tables } from '../../runtime/store/schema.ts'
import { createSqlStore } from '../../runtime/store/sql-store.ts'
import { openSqlite } from '../../runtime/store/sqlite/engine.ts'
import type { RunRow, Store } from '../../runtime/store/store.ts'
import { noRestrictions } from '../helpers/no-restrictions.ts'
import { aCall, aClaim, anApproval, anEvent, givenRun } from '../store/rows.ts'

/** Counts the statements of a store and the rows that they return. */
class Counter implements KyselyPlugin {
  statements = 0
  rows = 0
  transformQuery({ node }: Parameters<KyselyPlugin['transformQuery']>[0]) {
    this.statements += 1
    return node
  }
  async transformResult({ result }: Parameters<KyselyPlugin['transformResult']>[0]) {
    this.rows += result.rows.length
    return result
  }
  on = (db: Kysely<Tables>) => db.withPlugin(this)
}

async function aCountingStore() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-cost-'))
  const engine = await openSqlite(join(folder, 'store.db'))
  onTestFinished(async () => {
    await engine.close()
    rmSync(folder, { recursive: true })
  })
  await migrate(engine)
  const counter = new Counter()
  const counted = { ...engine, reader: counter.on(engine.reader), writer: counter.on(engine.writer) }
  const store = createSqlStore(counted, new EventListeners(silentLog), { log: silentLog })
  const keys = await loadDeploymentKeys(join(folder, 'keys'))
  return { store, counter, keys, audit: createAuditTrail(keys) }
}

/** A run in the middle of a turn, with one open call, after a number of finished turns with three calls each. */
async function givenLongRun(store: Store, turns: number): Promise<string> {
  const runId = await givenRun(store, { interactive: true, holder: 'a dead process' })
  const claim = aClaim(runId, { name: claimName('agent', runId, 1) })
  const { name, namespace, generation } = claim
  await store.transaction(async (tx) => {
    await tx.changeRun(runId, { generation: 1, hostSequence: turns * 10 })
    await tx.upsertClaim({ ...claim, uid: `u-${runId}` })
    const ids = { uid: `u-${runId}`, sandboxUid: `s-${runId}`, podUid: `p-${runId}` }
    await tx.bindClaim({ name, namespace, generation }, ids)
    const events = Array.from({ length: turns * 10 }, () => anEvent('word'))
    await tx.appendEvents(runId, events)
    for (let turn = 0; turn < turns; turn++) {
      const id = `${runId}-${turn}`
      await tx.insertTurn({ id, runId, state: 'sent', prompt: 'p', final: false })
      await tx.endTurn(id, { state: 'completed' })
      for (let call = 0; call < 3; call++) {
        const callId = `${id}-${call}`
        await tx.insertCall(aCall(runId, { callId, state: 'released', request: {}, sequence: turn * 10 }))
        await tx.changeCall(runId, callId, { state: 'ended', sequence: turn * 10 + 1 })
      }
    }
    await tx.insertTurn({ id: `${runId}-last`, runId, state: 'sent', prompt: 'p', final: false })
    await tx.insertCall({
      ...aCall(runId, { callId: 'open' }),
      request: {},
      decision: { callId: 'open', outcome: 'pending' },
    })
    await tx.insertApproval(anApproval(runId, { callId: 'open' }))
    await tx.changeRunState(runId, { from: 'queued', to: 'running' })
    await tx.changeRun(runId, { checkpoint: { sequence: 5 } })
  })
  return runId
}

/** The cost of taking over the run, finding its sandbox lost, and launching it again. */
async function costsOf(turns: number) {
  const { store, counter, keys, audit } = await aCountingStore()
  const id = await givenLongRun(store, turns)
  const deps = {
    store,
    clock: () => new Date(),
    log: silentLog,
    holder: { id: 'this process' },
    redactText: (text: string) => text,
    limits: { approvalTtlMs: 60_000, idleTimeoutMs: 1_000 },
    keys,
    restrictions: noRestrictions(),
    governance: { forRun: () => ({ touched: { secret: false } }) },
    openRedactor: () => new EventRedactor(createRedactor({ secrets: [], pii: false })),
    provider: {
      namespace: 'local',
      shared: {
        attach: async () => ({
          address: { socketPath: '/nowhere' },
          uids: { sandbox: 's' },
          instanceId: 'i',
        }),
      },
      collect: async () => undefined,
    },
  } as unknown as RunDeps
  const approvals = new Approvals(deps, audit)
  const taken: RunRow[] = []
  counter.rows = 0
  counter.statements = 0

  await takeOverRuns(deps, { launch: (run) => taken.push(run) })
  const [run] = taken
  if (!run) throw new Error('the run was not taken over')
  const obtained = await obtainSandbox(
    deps,
    { audit },
    { run, request: undefined, signal: new AbortController().signal },
  )
  await endingWhenIdle(deps, run)
  const took = { rows: counter.rows, statements: counter.statements }
  const loss = { code: 'sandbox_lost', message: 'gone' } as const
  const state = await requeueLost(deps, { audit, approvals }, { run, loss })
  const told = await callsSince(store, id, 5)

  return { obtained, state, told, took, all: { rows: counter.rows, statements: counter.statements } }
}

it('a takeover, a lost sandbox and a new launch read as many rows for a long run as for a short one', async () => {
  // More calls than the preface of a new sandbox lists.
  const short = await costsOf(20)
  const long = await costsOf(400)

  expect(long.obtained.position).toMatchObject({
    turn: { state: 'sent' },
    decisions: [{ callId: 'open' }],
    pending: [{ callId: 'open' }],
  })
  expect(long.state).toBe('queued')
  expect(long.told.length).toBeLessThan(50)
  expect(long.took).toEqual(short.took)
  expect(long.took.rows).toBeLessThan(20)
  expect(long.all).toEqual(short.all)
})
