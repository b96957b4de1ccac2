import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { afterAll, describe, expect, it } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import { PLUGINS } from '../../runtime/store/engine.ts'
import { EventListeners } from '../../runtime/store/event-listeners.ts'
import { migrate } from '../../runtime/store/migrate.ts'
import type { Tables } from '../../runtime/store/schema.ts'
import { createSqlStore } from '../../runtime/store/sql-store.ts'
import { sqliteDialect } from '../../runtime/store/sqlite/dialect.ts'
import { openSqlite } from '../../runtime/store/sqlite/engine.ts'
import type { Store } from '../../runtime/store/store.ts'
import { aCall, aClaim, anApproval, anEvent, aTrustedFolder, givenRun } from './rows.ts'

const folder = mkdtempSync(join(tmpdir(), 'aw-plan-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/**
 * Queries that read a whole table by their meaning: the number of keys, the oldest audit page, the newest keys, and all
 * positions in the queue.
 */
const MAY_SCAN = [
  /count\(\*\) as "count" from "api_keys"/,
  /from "audit" order by "position"/,
  /from "api_keys" order by "created_at" desc/,
  /row_number\(\)/,
]

async function exercise(store: Store): Promise<void> {
  const runId = await givenRun(store)
  const page = { limit: 10 }
  await store.transaction(async (tx) => {
    const approval = anApproval(runId)
    await tx.appendEvents(runId, [anEvent('a'), anEvent('b', { generation: 1, sequence: 1 })])
    await tx.changeRun(runId, { hostSequence: 1 })
    await tx.changeRunState(runId, { from: 'queued', to: 'running' })
    await tx.insertTurn({ id: 't', runId, state: 'queued', prompt: 'p', final: false })
    await tx.changeTurn('t', 'sent')
    await tx.reportOutcome('t', { outcome: 'succeeded' })
    await tx.endTurn('t', { state: 'completed' })
    await tx.readTurn('t')
    await tx.lastEndedTurn(runId)
    await tx.listTurns(runId, ['sent'])
    await tx.insertCommand({ id: 'c', runId, request: {}, state: 'running' })
    await tx.endCommand('c', {})
    await tx.readCommand(runId, 'c')
    await tx.listRunningCommands(runId)
    await tx.countRuns({ owner: 'ada', states: ['running'] })
    await tx.lockRunIfFree(runId)
    await tx.countRunsUnderWay({ states: ['running'] })
    await tx.listQueueHeads({ lanes: [{ lane: 'agent', hasRoom: false }], limit: 9 })
    await tx.changeRunState(runId, { from: 'running', to: 'queued' })
    await tx.waitForRoom(runId, { pauseMs: 0, retryMs: 0 })
    await tx.readAttempts(runId)
    await tx.expireInQueue(runId)
    await tx.changeRunState(runId, { from: 'queued', to: 'running' })
    await tx.insertApproval(approval)
    await tx.decideApproval(approval.requestId, { state: 'approved' })
    await tx.readApproval(runId, approval.requestId)
    await tx.listApprovals(runId, { state: 'pending', commandHash: 'aa' })
    await tx.insertCall(aCall(runId, { callId: 'call' }))
    await tx.changeCall(runId, 'call', { state: 'ended' })
    await tx.readCall(runId, 'call')
    await tx.listCalls(runId, ['open'])
    await tx.listReleasedCalls(runId, { after: 0, limit: 1 })
    await tx.upsertClaim(aClaim(runId, { name: 'n' }))
    const claim = { namespace: 'local', name: 'n', generation: 1 }
    await tx.readClaim(claim)
    await tx.changeClaim(claim, { uid: 'u' })
    await tx.bindClaim(claim, { uid: 'u', sandboxUid: 's', podUid: 'p' })
    await tx.auditHead(runId)
    await tx.auditHead('')
    await tx.trustFirst(aTrustedFolder())
    await tx.trustFirst(aTrustedFolder())
  })
  await store.listRuns({ ...page, owner: 'ada' })
  await store.listRuns({ ...page, owner: 'ada', kind: 'agent', after: runId })
  await store.listRuns({ ...page, after: runId })
  await store.listRuns({ ...page, states: ['running'] })
  await store.listRuns({ ...page, states: ['waiting_upload'], createdBefore: '2026-01-01T00:00:00.000Z' })
  await store.listAbandonedRuns(['running'], 10)
  await store.listOverdueInQueue({ afterMs: 0, limit: 9 })
  await store.viewQueue({ lane: 'agent', underWay: { states: ['running'] } })
  await store.countRuns({ owner: 'ada', states: ['running'] })
  await store.countRuns({ states: ['running'] })
  await store.readEvents(runId, 0, 10)
  await store.listApprovals(runId, { state: 'pending' })
  await store.listExpiredApprovals('2026-01-01T00:00:00.000Z')
  await store.listClaims(['requested', 'bound'])
  await store.writeBlob({ runId, name: 'session', maxBytes: 9 }, oneByte())
  for await (const _ of (await store.readBlob(runId, 'session'))?.chunks ?? []);
  await store.deleteBlobs(runId)
  const { sha256 } = await store.writeContent({ owner: 'ada', maxBytes: 9 }, oneByte())
  for await (const _ of await store.readContent('ada', sha256));
  const at = '2026-01-01T00:00:00.000Z'
  const checkpoint = { owner: 'ada', generation: 1, hostSequence: 1, policyVersion: 'p', at }
  await store.transaction((tx) =>
    tx.commitCheckpoint(runId, { ...checkpoint, session: sha256, contents: [sha256] }),
  )
  const to = await givenRun(store)
  await store.transaction((tx) => tx.copyCheckpoint(['session'], { from: runId, to }))
  await store.readCheckpoint(runId)
  await store.sweep({ endedBefore: '2999-01-01T00:00:00.000Z', now: new Date(), limit: 10 })
  await store.readApiKey('h')
  await store.countApiKeys()
  await store.listApiKeys({ limit: 1 })
  await store.transaction(async (tx) => {
    const row = { id: 'k', hash: 'h', owner: 'ada', role: 'user', createdAt: '2026' } as const
    await tx.insertApiKey(row)
    await tx.readApiKeyById('k')
    for (const of of [{ owner: 'ada' }, { createdWith: 'k' }])
      await tx.listUsableApiKeys(of, { now: '2026', limit: 1 })
    await tx.revokeApiKey('k', { at: '2026', by: 'ada' })
  })
  await store.listApiKeys({ owner: 'ada', limit: 1, after: 'k' })
  await store.listApiKeys({ limit: 1, after: 'k' })
  await store.listUnusableApiKeys(['k'], '2026')
  await store.noteApiKeyUse('k', '2026')
  const createdAt = '2026-01-01T00:00:00.000Z'
  const answer = { owner: 'ada', key: 'k', fingerprint: 'f', status: 200, body: '', createdAt }
  await store.transaction((tx) => tx.insertIdempotencyKey(answer))
  await store.writeIdempotencyKey(answer)
  await store.readIdempotencyKey(answer, new Date(createdAt))
  await store.writeSetting('a', 'b')
  await store.readSetting('a')
  await store.acquireLease('l', 'h', 1)
  await store.releaseLease('l', 'h')
  await store.writeTrustedFolder(aTrustedFolder({ path: '/b' }))
  await store.readTrustedFolder('ada', '/b')
  const { next } = await store.listTrustedFolders({ owner: 'ada', limit: 1 })
  await store.listTrustedFolders({ owner: 'ada', limit: 1, after: next ?? '' })
  await store.deleteTrustedFolder('ada', '/b')
  for (const query of [{ runId }, { tool: 't' }, { decision: 'deny' }, { since: createdAt }, {}]) {
    await store.readAudit({ ...page, after: '3', ...query })
  }
  for (const chain of [runId, '']) await store.readAuditHead(chain)
  for (const among of ['runs', 'records'] as const) await store.nextAuditChain(among, '')
}

async function* oneByte(): AsyncGenerator<Uint8Array> {
  yield new Uint8Array(1)
}

describe('the queries of the store', () => {
  it('all find their rows by an index', async () => {
    const file = join(folder, 'store.db')
    const engine = await openSqlite(file)
    await migrate(engine)
    const statements = new Set<string>()
    const listening = new Kysely<Tables>({
      dialect: sqliteDialect(new DatabaseSync(file), 1_000),
      plugins: PLUGINS,
      log: ({ query }) => void statements.add(query.sql),
    })
    const store = createSqlStore(
      { ...engine, reader: listening, writer: listening },
      new EventListeners(silentLog),
      { log: silentLog },
    )

    await exercise(store)

    const database = new DatabaseSync(file)
    const scans = [...statements]
      .filter(
        (sql) => /^(select|update|delete|insert)/.test(sql) && !MAY_SCAN.some((known) => known.test(sql)),
      )
      .flatMap((sql) => {
        const plan = database.prepare(`explain query plan ${sql}`).all()
        return plan.some(({ detail }) => `${detail}`.match(/^SCAN (?!\d+-ROW VALUES)/)) ? [sql] : []
      })
    database.close()
    await listening.destroy()
    await engine.close()
    expect(statements.size).toBeGreaterThan(40)
    expect(scans).toEqual([])
  })

  it('that select among the calls and turns of a run read only the selected ones', async () => {
    const engine = await openSqlite(join(folder, 'selected.db'))
    await migrate(engine)
    const planOf = async (query: { compile(): { sql: string; parameters: readonly unknown[] } }) => {
      const { sql, parameters } = query.compile()
      const database = new DatabaseSync(join(folder, 'selected.db'))
      const plan = database.prepare(`explain query plan ${sql}`).all(...(parameters as string[]))
      database.close()
      return plan.map(({ detail }) => `${detail}`).join('\n')
    }
    const calls = engine.reader.selectFrom('calls').selectAll().where('run_id', '=', 'r')
    const turns = engine.reader.selectFrom('turns').selectAll().where('run_id', '=', 'r')

    const open = await planOf(calls.where('state', 'in', ['open', 'released']))
    const released = await planOf(
      calls.where('was_released', '=', 1).where('sequence', '>', 5).orderBy('sequence', 'desc'),
    )
    const sent = await planOf(turns.where('state', 'in', ['sent']).orderBy('ordinal'))
    await engine.close()

    expect(open).toContain('calls_by_state (run_id=? AND state=?)')
    expect(released).toContain('calls_by_event (run_id=? AND was_released=? AND sequence>?)')
    expect(sent).toContain('turns_by_state (run_id=? AND state=?)')
  })

  it('are judged by a plan that does tell a scan (control)', () => {
    const database = new DatabaseSync(':memory:')
    database.exec('create table t (a text, b text primary key)')

    const plan = database.prepare('explain query plan select * from t where a = ?').all()

    expect(`${plan[0]?.['detail']}`).toMatch(/^SCAN /)
    database.close()
  })
})
