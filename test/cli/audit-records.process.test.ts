import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import type { AuditEntry, AuditVerification } from '../../contracts/audit.ts'
import type { Client } from '../../runtime/client/client.ts'
import { startOwnService } from './own-service.ts'
import { untilQuiet } from './run-cli.ts'

const SECRET = `sk-ant-api03-${'a1B2'.repeat(20)}`
const REASON = `not with ${randomUUID()}`
const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })

let folder: string
let records: AuditEntry[]
let report: AuditVerification | undefined
const ids = {} as Record<'decided' | 'cancelled' | 'sandbox', string>

const of = (runId: string) => records.filter((record) => record.runId === runId)

/** Starts a run and calls back with the id of each approval request until the run ends. */
async function runWith(client: Client, steps: PlanStep[], onAsked: (id: string, request: string) => unknown) {
  const workspace = { kind: 'path', path: join(folder, 'workspace') } as const
  const { id } = await client.startRun({
    task: 'a task',
    workspace,
    agent: { kind: 'scripted', plan: { turns: [steps] } },
  })
  for await (const { event } of client.streamEvents(id)) {
    if (event.type === 'shell.approval_required') await onAsked(id, event.data.requestId)
  }
  return id
}

/** Writes files, and leaves a command running when the sandbox is destroyed. */
async function useSandbox(client: Client): Promise<string> {
  const { id } = await client.createSandbox({})
  const content = Buffer.from(SECRET)
  await client.writeFile(id, { path: 'a.txt', content })
  await client.readFile(id, { path: 'a.txt' })
  await client.deleteFile(id, { path: 'a.txt' })
  await client.deleteFile(id, { path: 'a.txt' }).catch(() => undefined)
  for await (const _ of client.runCommand(id, { command: `echo ${SECRET}` }));
  await client.startCommand(id, { command: 'sleep 600' })
  await client.destroySandbox(id)
  for await (const _ of client.streamEvents(id));
  return id
}

async function readAll(client: Client): Promise<AuditEntry[]> {
  const all: AuditEntry[] = []
  for (let after: string | undefined; ; ) {
    const { items, next } = await client.readAudit({ limit: 7, ...(after !== undefined && { after }) })
    all.push(...items)
    if (next === undefined) return all
    after = next
  }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-audit-records-'))
  await mkdir(join(folder, 'workspace'))
  const service = await startOwnService(folder, { AGENTWEAVER_WORKSPACE_ROOTS: folder })
  const { client } = service
  const asked = ['rm -rf build', 'rm -rf dist'].map(shell)
  let answered = 0
  ids.decided = await runWith(client, [...asked, shell(`echo ${SECRET}`)], (id, requestId) =>
    answered++ === 0
      ? client.approveShell(id, { requestId, scope: 'run' })
      : client.denyShell(id, { requestId, reason: REASON }),
  )
  ids.cancelled = await runWith(client, asked, (id) => client.cancel(id))
  ids.sandbox = await useSandbox(client)
  await client.replacePolicy({ require_approval_for_all_shell: true })
  await client.mergePolicy({ shell_enabled: false })
  records = await readAll(client)
  for await (const one of client.verifyAudit()) report = one
  await service.stop()
  await untilQuiet(folder)
})

afterAll(() => rm(folder, { recursive: true, force: true }))

const isEnd = ({ kind }: AuditEntry) => kind === 'outcome' || kind === 'file.written'

test('every intent has exactly one outcome by the same actor, and every outcome has an intent', () => {
  const intents = records.filter(({ kind }) => kind === 'intent')
  const ends = records.filter(isEnd)
  const nameOf = ({ runId, callId, actor, tool }: AuditEntry) => [runId, callId, actor, tool].join(' ')

  expect(intents.length).toBeGreaterThan(8)
  expect(ends.map(nameOf).sort()).toEqual(intents.map(nameOf).sort())
})

test('the chains with all of these records verify', () => {
  expect(report).toMatchObject({ isComplete: true, ok: true, chains: 4 })
})

test('no record contains text of a command, a file or a reason', () => {
  const text = JSON.stringify(records)

  expect(text).not.toContain(SECRET)
  expect(text).not.toContain(REASON)
})

describe('an approval request', () => {
  test('has a record of the person who decided it, joined to the call', () => {
    const decisions = of(ids.decided).filter(({ kind }) => kind === 'decision')
    const asked = of(ids.decided).filter(({ kind, decision }) => kind === 'intent' && decision === 'ask')

    expect(decisions).toMatchObject([
      { actor: 'person:local', tool: 'run_command', decision: 'approved', reasons: ['scope run'] },
      { actor: 'person:local', tool: 'run_command', decision: 'denied' },
    ])
    expect(decisions.map(({ callId, approval }) => [callId, approval])).toEqual(
      asked.map(({ callId, approval }) => [callId, approval]),
    )
  })

  test('has a decision without a person and an outcome if the end of the run superseded it', () => {
    const [decision] = of(ids.cancelled).filter(({ kind }) => kind === 'decision')
    const outcome = of(ids.cancelled).find((record) => isEnd(record) && record.callId === decision?.callId)

    expect(decision).toMatchObject({ actor: 'agentweaver', decision: 'superseded' })
    expect(outcome?.outcome).toMatch(/superseded|cancelled/)
  })
})

describe('an action of a person in a sandbox', () => {
  test('has an intent record before and an outcome record after a file is written or deleted', () => {
    const files = of(ids.sandbox).filter(({ tool }) => tool.startsWith('file.'))

    expect(files.map(({ kind, tool, outcome }) => [kind, tool, outcome])).toEqual([
      ['intent', 'file.write', undefined],
      ['file.written', 'file.write', 'ok'],
      ['intent', 'file.delete', undefined],
      ['file.written', 'file.delete', 'ok'],
      ['intent', 'file.delete', undefined],
      ['file.written', 'file.delete', 'not_found'],
    ])
    expect(files[0]?.reasons).toContain('path a.txt')
    expect(files[1]?.bytes).toBe(SECRET.length)
    expect(new Set(files.map(({ actor }) => actor))).toEqual(new Set(['person:local']))
  })

  test('has an outcome if its command was still running at the end', () => {
    const commands = of(ids.sandbox).filter(({ tool, kind }) => tool === 'exec' && kind === 'outcome')

    expect(commands).toMatchObject([{ outcome: 'exit', exitCode: 0 }, { actor: 'person:local' }])
  })
})

test('a policy change is recorded with the person and the change', () => {
  const changes = of('').filter(({ kind }) => kind === 'policy.changed')

  expect(changes).toMatchObject([
    {
      actor: 'person:local',
      tool: 'policy.change',
      reasons: expect.arrayContaining(['changes require_approval_for_all_shell']),
    },
    { actor: 'person:local', tool: 'policy.change', reasons: ['changes shell_enabled'] },
  ])
  expect(changes[0]?.policyVersion).not.toBe(changes[1]?.policyVersion)
})

test('the first API key is recorded without the key itself', () => {
  const [created] = of('').filter(({ kind }) => kind === 'key.created')

  expect(created).toMatchObject({ actor: 'agentweaver', reasons: ['role operator', 'owner local'] })
  expect(JSON.stringify(created)).not.toContain('awk_')
})
