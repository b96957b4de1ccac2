import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Readable } from 'node:stream'
import { describe, expect, it, onTestFinished } from 'vitest'
import { takeOverRuns } from '../../runtime/api/runs/replicas/takeover.ts'
import { createLog, silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { Store } from '../../runtime/store/store.ts'
import { aCall, aClaim, anApproval, anEvent, givenRun } from './rows.ts'

const SECRET = 'hunter2'

/** A store with one run that has a row in each table, and statements that bypass the store. */
async function aStore() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-damage-'))
  const file = join(folder, 'store.db')
  const lines: string[] = []
  const log = createLog({ level: 'debug', write: (line) => lines.push(line) })
  const store = await openStore({ kind: 'sqlite', file }, { log })
  const database = new DatabaseSync(file)
  onTestFinished(async () => {
    database.close()
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const runId = await givenRun(store)
  const { sha256 } = await store.writeContent(
    { owner: 'ada', maxBytes: 1 },
    Readable.from([Buffer.from('a')]),
  )
  await store.transaction(async (tx) => {
    await tx.appendEvents(runId, [anEvent('a')])
    await tx.insertTurn({ id: 't', runId, state: 'sent', prompt: 'p', final: false })
    await tx.insertCommand({ id: 'c', runId, request: {}, state: 'running' })
    await tx.insertCall({ ...aCall(runId, { callId: 'call' }), request: {} })
    await tx.insertApproval(anApproval(runId, { requestId: 'r' }))
    await tx.upsertClaim(aClaim(runId, { name: 'n' }))
    await tx.commitCheckpoint(runId, {
      ...{ owner: 'ada', generation: 1, hostSequence: 1, policyVersion: 'p', at: '2026', contents: [sha256] },
      workspace: { kind: 'archive', sha256 },
    })
    await tx.writeSetting('s', 'v')
    await tx.insertApiKey({ id: 'k', hash: 'h', owner: 'ada', role: 'user', createdAt: '2026' })
  })
  return { store, runId, database, lines }
}

type Read = (store: Store, runId: string) => Promise<unknown>
const claim = { namespace: 'local', name: 'n', generation: 1 }
const READS = {
  runs: (store, runId) => store.readRun(runId),
  events: (store, runId) => store.readEvents(runId, 0, 10),
  turns: (store, runId) => store.transaction((tx) => tx.listTurns(runId)),
  commands: (store, runId) => store.transaction((tx) => tx.readCommand(runId, 'c')),
  calls: (store, runId) => store.transaction((tx) => tx.readCall(runId, 'call')),
  approvals: (store, runId) => store.listApprovals(runId),
  claims: (store) => store.transaction((tx) => tx.readClaim(claim)),
  checkpoints: (store, runId) => store.readCheckpoint(runId),
  settings: (store) => store.readSetting('s'),
  api_keys: (store) => store.readApiKey('h'),
} satisfies Record<string, Read>

/** A column, and a value that this program cannot have written. */
const DAMAGE: readonly [keyof typeof READS, string, string | number | Uint8Array][] = [
  ['runs', 'state', SECRET],
  ['runs', 'settings_json', `{"shell_enabled":"${SECRET}"}`],
  ['runs', 'workspace_json', `{"kind":"${SECRET}"}`],
  ['runs', 'agent_spec_json', `{"kind":"${SECRET}`],
  ['runs', 'ending_json', `{"state":"${SECRET}"}`],
  ['runs', 'checkpoint_json', `{"sequence":"${SECRET}"}`],
  ['runs', 'owner', `${SECRET}"`],
  ['runs', 'interactive', 7],
  ['runs', 'last_sequence', SECRET],
  ['events', 'event_json', `{"type":"agent.message","data":"${SECRET}"}`],
  ['events', 'event_json', `{"type":"${SECRET}","data":{}}`],
  ['events', 'event_json', `{"type":"agent.message", ${SECRET}`],
  ['turns', 'end_json', `{"state":"${SECRET}"}`],
  ['turns', 'state', SECRET],
  ['commands', 'request_json', SECRET],
  ['calls', 'decision_json', `{"callId":"call","outcome":"${SECRET}"}`],
  ['calls', 'summary_json', `["${SECRET}"]`],
  ['approvals', 'state', SECRET],
  ['approvals', 'redacted', 2],
  ['claims', 'handle_json', SECRET],
  ['checkpoints', 'owner', `${SECRET}"`],
  ['checkpoints', 'generation', SECRET],
  ['checkpoints', 'workspace_kind', SECRET],
  ['checkpoints', 'policy_version', Buffer.from(SECRET)],
  ['settings', 'value', `\\${SECRET}`],
  ['api_keys', 'role', 'administrator'],
]

describe('a damaged column', () => {
  it.each(DAMAGE)(
    '%s.%s fails the read with its name and without its value: %s',
    async (table, column, value) => {
      const { store, runId, database } = await aStore()
      const read = () => READS[table](store, runId)
      await expect(read()).resolves.toBeTruthy()

      database.prepare(`update ${table} set ${column} = ?`).run(value)

      const error: unknown = await read().catch((caught: unknown) => caught)
      expect(error).toMatchObject({ code: 'store_damaged' })
      const text = `${error instanceof Error ? `${error.message} ${error.stack} ${error.cause}` : ''}`
      expect(text).toContain(column)
      expect(text).toContain(table)
      expect(text).not.toContain(SECRET)
    },
  )

  it('is never read as the role of an operator', async () => {
    const { store, database } = await aStore()

    database.exec(`update api_keys set role = 'OPERATOR'`)

    await expect(store.readApiKey('h')).rejects.toMatchObject({ code: 'store_damaged' })
  })

  it('of one run hides no other run from a list, and is logged', async () => {
    const { store, runId, database, lines } = await aStore()
    const [second, third] = [await givenRun(store), await givenRun(store)]
    database.prepare('update runs set state = ? where id = ?').run(SECRET, second)

    const first = await store.listRuns({ limit: 2 })
    const rest = await store.listRuns({ limit: 2, after: `${first.next}` })

    const ids = [...first.items, ...rest.items].map(({ id }) => id)
    expect(ids.toSorted()).toEqual([runId, third].toSorted())
    expect(lines.some((line) => line.includes(second) && line.includes('store_damaged'))).toBe(true)
    expect(lines.join()).not.toContain(SECRET)
  })

  it('of one run does not keep other runs from being taken over', async () => {
    const { store, runId, database } = await aStore()
    const other = await givenRun(store)
    await store.transaction(async (tx) => {
      for (const id of [runId, other]) await tx.changeRunState(id, { from: 'queued', to: 'running' })
    })
    database.prepare('update runs set settings_json = ? where id = ?').run(SECRET, runId)
    const taken: string[] = []
    const deps = { store, holder: { id: 'this process' }, log: silentLog }

    await takeOverRuns(deps, { launch: ({ id }) => taken.push(id) })

    expect(taken).toEqual([other])
  })
})
