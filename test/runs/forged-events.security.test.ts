import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { HostEvent } from '../../contracts/events.ts'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { BatchCommitter } from '../../runtime/api/runs/commit-batch.ts'
import type { RunDeps } from '../../runtime/api/runs/deps.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import type { Store } from '../../runtime/store/store.ts'
import { givenRun } from '../store/rows.ts'

const EXITED = {
  exitCode: 0,
  signal: null,
  timedOut: false,
  outputTruncated: false,
  stdoutBytes: 0,
  stderrBytes: 0,
  reason: 'exit',
  durationMs: 1,
} as const

const aCall = (callId: string): HostEvent => ({
  type: 'tool.call',
  data: { callId, tool: 'create', request: { path: 'a', file_text: '' }, verdict: 'allow', reasons: [] },
})
const aResult = (callId: string, tool = 'create'): HostEvent => ({
  type: 'tool.result',
  data: { callId, tool, outcome: { ok: true, content: 'done', facts: {} }, durationMs: 1 },
})
const turnEnded = (turnId: string): HostEvent => ({
  type: 'turn.ended',
  data: { turnId, state: 'completed' },
})
const commandExited = (commandId: string): HostEvent => ({
  type: 'command.exited',
  data: { commandId, result: EXITED },
})

let store: Store
let runId: string
let other: string
let verdict: 'allow' | 'deny'
let sequence: number
let committer: BatchCommitter

beforeEach(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-forged-'))
  store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const keys = await loadDeploymentKeys(join(folder, 'keys'))
  verdict = 'allow'
  sequence = 0
  const deps: Partial<RunDeps> = {
    store,
    clock: () => new Date(),
    log: silentLog,
    limits: { approvalTtlMs: 60_000 } as RunDeps['limits'],
    governance: {
      version: () => 'p1',
      forRun: () => ({
        decide: () => ({ verdict, rule: 'test', reasons: ['said so'], matched: [] }),
        observe: () => undefined,
      }),
    },
    openRedactor: () => ({ redact: (event) => [event] }),
  }
  runId = await givenRun(store)
  other = await givenRun(store)
  await givenWork(runId)
  await givenWork(other)
  const run = await store.readRun(runId)
  if (!run) throw new Error('the run is not there')
  committer = new BatchCommitter(deps as RunDeps, createAuditTrail(keys), run)
})

/** A turn and a command that work. */
async function givenWork(id: string): Promise<void> {
  await store.transaction(async (tx) => {
    await tx.changeRun(id, { generation: 1 })
    await tx.insertTurn({ id: `turn-of-${id}`, runId: id, state: 'sent', prompt: 'p', final: false })
    await tx.insertCommand({ id: `cmd-of-${id}`, runId: id, request: {}, state: 'running' })
  })
}

const commit = (...events: HostEvent[]) =>
  committer.commit({
    runId,
    generation: 1,
    envelopes: events.map((event) => ({ sequence: ++sequence, at: new Date().toISOString(), event })),
  })

const eventsOf = async () => (await store.readEvents(runId, 0, 100)).map(({ event }) => event.type)

describe('a sandbox that tells what cannot have happened', () => {
  it('is believed where it tells what did', async () => {
    await commit(aCall('c'), aResult('c'), turnEnded(`turn-of-${runId}`), commandExited(`cmd-of-${runId}`))

    expect(await eventsOf()).toEqual(['tool.call', 'tool.result', 'turn.ended', 'command.exited'])
  })

  it.each<[string, () => HostEvent[]]>([
    ['the result of a call that it never announced', () => [aResult('c')]],
    ['a call that it announced before, with another request', () => [aCall('c'), aCall('c')]],
    ['a second result of a call', () => [aCall('c'), aResult('c'), aResult('c')]],
    [
      'the result of a call under the name of another tool',
      () => [aCall('c'), aResult('c', 'report_outcome')],
    ],
    ['the end of a turn of another run', () => [turnEnded(`turn-of-${other}`)]],
    [
      'the end of a turn for the second time',
      () => [turnEnded(`turn-of-${runId}`), turnEnded(`turn-of-${runId}`)],
    ],
    ['the end of a command of another run', () => [commandExited(`cmd-of-${other}`)]],
  ])('is refused with %s, and nothing of it is stored', async (_what, events) => {
    await expect(commit(...events())).rejects.toMatchObject({ code: 'sandbox_lost' })

    expect(await eventsOf()).toEqual([])
    const [turn, command] = await store.transaction(async (tx) => [
      (await tx.listTurns(other))[0]?.state,
      (await tx.readCommand(other, `cmd-of-${other}`))?.state,
    ])
    expect([turn, command]).toEqual(['sent', 'running'])
  })

  it('is refused with the result of a call that the control plane denied', async () => {
    verdict = 'deny'
    await commit(aCall('c'))

    await expect(commit(aResult('c'))).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
})
