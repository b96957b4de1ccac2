import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SandboxSettings } from '../contracts/policy.ts'
import { loadDeploymentKeys } from '../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../runtime/api/runs/audit-trail.ts'
import type { RunDeps } from '../runtime/api/runs/deps.ts'
import { obtainSandbox } from '../runtime/api/runs/drive/obtain-sandbox.ts'
import { Approvals } from '../runtime/api/runs/gates/approvals.ts'
import { claimName } from '../runtime/api/runs/ids.ts'
import { takeOverRuns } from '../runtime/api/runs/replicas/takeover.ts'
import { Restrictions } from '../runtime/api/runs/restrictions/restrictions.ts'
import { silentLog } from '../runtime/kit/log.ts'
import { EventRedactor } from '../runtime/redaction/event-redactor.ts'
import { createRedactor } from '../runtime/redaction/redactor.ts'
import { openStore } from '../runtime/store/open-store.ts'
import type { RunRow, Store } from '../runtime/store/store.ts'
import { type Bench, figure, timed } from './harness.ts'

const BAR_MS = 2_000
const ROUNDS = 5
const SHORT = 1_000
const LONG = 1_000_000

/**
 * From the moment at which a process sees that a run has no driver until a person's decision for that run is stored: the
 * store's part of a takeover. The requests to the sandbox are left out, because they do not depend on the run's length.
 */
export const bench: Bench = {
  name: 'takeover',
  run: async () => {
    const short = await measure(SHORT)
    const long = await measure(LONG)
    return figure({
      name: 'takeover',
      unit: 'ms',
      measure: 'absolute',
      bar: BAR_MS,
      samples: { baseline: short, value: long },
      note: `SQLite; a run with ${LONG} events and ${LONG / 10} calls, compared with ${SHORT} events`,
    })
  },
}

async function measure(events: number): Promise<number[]> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-takeover-'))
  const file = join(folder, 'store.db')
  const store = await openStore({ kind: 'sqlite', file }, { log: silentLog })
  try {
    const samples: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const id = await givenRun(store, `run_${events}_${round}`)
      fill(file, id, events)
      samples.push(await takeOver(store, folder, id))
      await store.transaction((tx) => tx.changeRun(id, { endedAt: new Date().toISOString() }))
      await store.transaction((tx) => tx.changeRunState(id, { from: 'running', to: 'failed' }))
    }
    return samples
  } finally {
    await store.close()
    rmSync(folder, { recursive: true })
  }
}

/** A run of a dead process that waits for a person in the middle of a turn. */
async function givenRun(store: Store, id: string): Promise<string> {
  const at = new Date().toISOString()
  const claim = { namespace: 'local', name: claimName('agent', id, 1), generation: 1 }
  await store.transaction(async (tx) => {
    await tx.insertRun({
      ...{ id, kind: 'agent', owner: 'ada', state: 'running', task: 't', workspace: { kind: 'empty' } },
      ...{ agent: { kind: 'scripted' }, agentSpec: {}, labels: {}, settings: SandboxSettings.parse({}) },
      ...{ interactive: true, policyVersion: 'p', keyId: 'k', endsWithService: false, holder: 'dead' },
    })
    await tx.changeRun(id, { generation: 1 })
    await tx.upsertClaim({ ...claim, runId: id, keyId: 'k', state: 'requested', uid: id, createdAt: at })
    await tx.bindClaim(claim, { uid: id, sandboxUid: `s-${id}`, podUid: `p-${id}` })
    await tx.insertTurn({ id: `t-${id}`, runId: id, state: 'sent', prompt: 'p', final: false })
    const decision = { callId: 'open', outcome: 'pending' } as const
    await tx.insertCall({ runId: id, callId: 'open', tool: 'create', state: 'open', openedAt: at, decision })
    await tx.insertApproval({
      ...{ requestId: `a-${id}`, runId: id, callId: 'open', kind: 'tool', tool: 'create', binding: 'b' },
      ...{ redacted: false, state: 'pending', createdAt: at, expiresAt: '2099-01-01T00:00:00.000Z' },
    })
  })
  return id
}

/** Writes the past of a run with one statement per table, because the store would need minutes. */
function fill(file: string, id: string, events: number): void {
  const database = new DatabaseSync(file, { timeout: 10_000 })
  const numbers = 'with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)'
  const word = JSON.stringify({ type: 'agent.message.delta', data: { messageId: 'm', text: 'word' } })
  database
    .prepare(
      `insert into events (run_id, sequence, at, event_json, host_generation, host_sequence)
      ${numbers} select ?, i, '2026-01-01T00:00:00.000Z', ?, 1, i from n`,
    )
    .run(events, id, word)
  database
    .prepare(
      `insert into calls (run_id, call_id, tool, state, decision_json, opened_at, summary_json, was_released, sequence)
      ${numbers} select ?, 'call-' || i, 'create', 'ended', '{}', '2026-01-01T00:00:00.000Z',
        '{"request":"{}","result":"ok"}', 1, i * 10 from n`,
    )
    .run(events / 10, id)
  database
    .prepare('update runs set last_sequence = ?, host_sequence = ? where id = ?')
    .run(events, events, id)
  database.close()
}

async function takeOver(store: Store, folder: string, id: string): Promise<number> {
  const keys = await loadDeploymentKeys(join(folder, 'keys'))
  const audit = createAuditTrail(keys)
  const deps = depsOver(store, keys)
  return timed(async () => {
    const taken: RunRow[] = []
    await takeOverRuns(deps, { launch: (run) => taken.push(run) })
    const [run] = taken
    if (run?.id !== id) throw new Error('the run was not taken over')
    const signal = new AbortController().signal
    const { launched } = await obtainSandbox(deps, { audit }, { run, request: undefined, signal })
    const word = { requestId: `a-${id}`, outcome: 'approved', by: 'ada', scope: 'once' } as const
    await new Approvals(deps, audit).decide({ owner: 'ada', role: 'user' }, id, word)
    await launched.client.close()
  })
}

/** The sandbox cannot be reached: nothing listens at its address. */
const depsOver = (store: Store, keys: RunDeps['keys']): RunDeps =>
  ({
    ...{ store, keys, log: silentLog, clock: () => new Date(), holder: { id: 'this process' } },
    limits: { approvalTtlMs: 60_000 },
    restrictions: new Restrictions({ store, log: silentLog }),
    governance: { forRun: () => ({ touched: { secret: false } }) },
    openRedactor: () => new EventRedactor(createRedactor({ secrets: [], pii: false })),
    provider: {
      namespace: 'local',
      shared: { attach: async () => ({ address: { socketPath: '/nowhere' }, instanceId: 'i' }) },
    },
  }) as unknown as RunDeps
