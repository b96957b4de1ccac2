import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { silentLog } from '../../runtime/kit/log.ts'
import type { Engine } from '../../runtime/store/engine.ts'
import { EventListeners } from '../../runtime/store/event-listeners.ts'
import { migrate } from '../../runtime/store/migrate.ts'
import { MIGRATIONS } from '../../runtime/store/migrations.ts'
import { openPostgres } from '../../runtime/store/postgres/engine.ts'
import { createSqlStore } from '../../runtime/store/sql-store.ts'
import { openSqlite } from '../../runtime/store/sqlite/engine.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'

const postgres = await requestPostgres()

const ENGINES: readonly [string, () => Promise<Engine>][] = [
  [
    'SQLite',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'aw-migrate-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      return openSqlite(join(folder, 'store.db'))
    },
  ],
  ...('url' in postgres
    ? ([
        [
          'PostgreSQL',
          async () => {
            if (!('url' in postgres)) throw new Error('no PostgreSQL')
            return openPostgres({ url: await createDatabase(postgres.url) }, silentLog, () => undefined)
          },
        ],
      ] satisfies [string, () => Promise<Engine>][])
    : []),
]

const BEFORE_CALLS = MIGRATIONS.filter(({ version }) => version < 12)

/** Rows as the last release before the migration wrote them, by statements of that time. */
async function givenOldRun({ writer }: Engine, id: string, endedAt: string | null): Promise<void> {
  await sql`insert into runs (id, kind, owner, state, task, workspace_json, agent_json, agent_spec_json, labels_json,
    settings_json, interactive, generation, policy_version, key_id, last_sequence, host_sequence, audit_count, audit_mac,
    created_at, ended_at) values (${id}, 'agent', 'ada', 'running', 't', '{"kind":"empty"}', '{"kind":"scripted"}', '{}',
    '{}', '{}', 0, 1, 'p', 'k', 6, 0, 0, '', '2026-01-01T00:00:00.000Z', ${endedAt})`.execute(writer)
  await sql`insert into turns (id, run_id, ordinal, state, prompt, final)
    values (${`${id}-t`}, ${id}, 1, 'ended', 'p', 0)`.execute(writer)
  const calls = [
    ['open', 'open', 'pending'],
    ['done', 'ended', 'release'],
    ['denied', 'ended', 'denied'],
  ]
  for (const [callId, state, outcome] of calls)
    await sql`insert into calls (run_id, call_id, tool, state, decision_json, opened_at)
      values (${id}, ${callId}, 'create', ${state}, ${JSON.stringify({ callId, outcome })}, '2026')`.execute(
      writer,
    )
  const call = (callId: string) => ({
    type: 'tool.call',
    data: { callId, tool: 'create', request: { path: 'a' } },
  })
  const events = [
    call('done'),
    { type: 'tool.result', data: { callId: 'done', tool: 'create', outcome: { ok: true, content: 'made' } } },
    { type: 'turn.ended', data: { turnId: `${id}-t`, state: 'failed', code: 'agent_failed' } },
    call('denied'),
    { type: 'agent.message', data: { messageId: 'm', text: 'x' } },
    call('open'),
  ]
  for (const [index, event] of events.entries())
    await sql`insert into events (run_id, sequence, at, event_json)
      values (${id}, ${index + 1}, '2026', ${JSON.stringify(event)})`.execute(writer)
}

describe.each(ENGINES)('the migration of a store on %s', (_name, open) => {
  it('copies from the events what the driver of an active run needs', async () => {
    const engine = await open()
    onTestFinished(() => engine.close())
    await migrate(engine, BEFORE_CALLS)
    await givenOldRun(engine, 'run_active', null)
    await givenOldRun(engine, 'run_ended', '2026-01-02T00:00:00.000Z')

    await migrate(engine)

    const store = createSqlStore(engine, new EventListeners(silentLog), { log: silentLog })
    const state = await store.transaction(async (tx) => ({
      run: await tx.readRun('run_active'),
      turn: await tx.lastEndedTurn('run_active'),
      open: await tx.readCall('run_active', 'open'),
      released: await tx.listReleasedCalls('run_active', { after: 0, limit: 10 }),
      ended: await tx.readCall('run_ended', 'done'),
    }))
    expect(state).toMatchObject({
      run: { touched: { secret: true } },
      turn: { end: { state: 'failed', code: 'agent_failed' } },
      open: { request: { path: 'a' }, sequence: 6 },
      released: [{ callId: 'done', sequence: 2, summary: { request: '{"path":"a"}', result: 'made' } }],
    })
    expect(state.ended).not.toHaveProperty('summary')
  })
})

describe.each(ENGINES)('the migration of API keys on %s', (_name, open) => {
  it('keeps their roles, and gives them no expiry', async () => {
    const engine = await open()
    onTestFinished(() => engine.close())
    await migrate(
      engine,
      MIGRATIONS.filter(({ version }) => version < 19),
    )
    await sql`insert into api_keys (id, hash, owner, role, created_at)
      values ('key_1', 'h', 'local', 'operator', '2026-01-01T00:00:00.000Z')`.execute(engine.writer)

    await migrate(engine)

    const store = createSqlStore(engine, new EventListeners(silentLog), { log: silentLog })
    expect(await store.readApiKey('h')).toEqual({
      ...{ id: 'key_1', hash: 'h', owner: 'local', role: 'operator', createdAt: '2026-01-01T00:00:00.000Z' },
    })
    expect(await store.listUnusableApiKeys(['key_1'], '2099-01-01T00:00:00.000Z')).toEqual([])
  })
})

describe.skipIf(!('url' in postgres))('PostgreSQL', () => {
  it('lets a migration take as long as it needs', async () => {
    const url = 'url' in postgres ? await createDatabase(postgres.url) : ''
    const engine = await openPostgres({ url }, silentLog, () => undefined)
    onTestFinished(() => engine.close())
    const timeouts: unknown[] = []
    const version = Math.max(...MIGRATIONS.map((migration) => migration.version)) + 1
    const slow = {
      version,
      name: 'reads its own time limit',
      up: async (db: Engine['writer']) => {
        timeouts.push(...(await sql`select current_setting('statement_timeout') as it`.execute(db)).rows)
      },
    }

    await migrate(engine, [...MIGRATIONS, slow])
    timeouts.push(
      ...(await sql`select current_setting('statement_timeout') as it`.execute(engine.writer)).rows,
    )

    expect(timeouts).toEqual([{ it: '30min' }, { it: '8s' }])
  })
})
