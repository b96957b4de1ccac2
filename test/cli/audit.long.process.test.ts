import { createHash, randomUUID } from 'node:crypto'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Ajv } from 'ajv'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import type { AuditPage } from '../../contracts/audit.ts'
import { generateApiKey, hashApiKey } from '../../runtime/api/http/api-key.ts'
import ocsfSchema from '../audit/ocsf/api-activity-1.6.0.schema.json' with { type: 'json' }
import { startOwnService } from './own-service.ts'
import { aFolder, runCli, untilQuiet } from './run-cli.ts'

const SECRET = `hunter-${randomUUID()}`
const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })

let folder: string
let url: string
let env: Record<string, string>
/** Copies of a stopped service's store and key. */
let copy: string
let runIds: string[]

const keyOf = {} as Record<'alice' | 'bob', string>
const ask = (path: string, key: string) =>
  fetch(new URL(path, url), { headers: { authorization: `Bearer ${key}` } })

/** Changes the copied database with SQL, as an attacker would. */
function tamper(file: string, ...statements: string[]): void {
  const database = new DatabaseSync(file)
  for (const statement of statements) database.exec(statement)
  database.close()
}

async function aCopy(...statements: string[]): Promise<string> {
  const to = await aFolder('aw-audit-copy-')
  await cp(copy, to, { recursive: true })
  tamper(join(to, 'store.db'), ...statements)
  return to
}

const verifyCopy = async (at: string, ...more: string[]) => {
  const where = ['--store', join(at, 'store.db'), '--key', join(at, 'keys/deployment.key')]
  const { status, stdout, stderr } = await runCli(['audit', 'verify', ...more, ...where, '--json'])
  expect(stderr).toBe('')
  return { status, report: JSON.parse(stdout) }
}

type Answers = { readonly status: number; readonly json: AuditPage }
const answers = {} as Record<string, Answers>
let online: { verified: Awaited<ReturnType<typeof runCli>>; ocsf: string; jsonl: string; shown: string }

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-audit-cli-'))
  const workspace = join(folder, 'workspace')
  const stateDir = join(folder, 'state')
  await mkdir(workspace)
  const service = await startOwnService(folder, { AGENTWEAVER_WORKSPACE_ROOTS: folder })
  url = service.url
  env = { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: service.apiKey }
  for (const owner of ['alice', 'bob'] as const) {
    keyOf[owner] = generateApiKey()
    const values = [`key_${owner}`, hashApiKey(keyOf[owner]), owner, 'user', new Date().toISOString()]
    tamper(
      join(stateDir, 'store.db'),
      `insert into api_keys (id, hash, owner, role, created_at) values ('${values.join("','")}')`,
    )
  }
  const plan = join(folder, 'plan.json')
  const outside: PlanStep = { kind: 'tool', tool: 'read_file', arguments: { path: '/etc/shadow' } }
  const steps = [shell(`echo ${SECRET}`), shell('exit 3'), outside]
  await writeFile(plan, JSON.stringify({ turns: [steps] }))
  runIds = []
  for (const key of [service.apiKey, keyOf.alice]) {
    const started = await runCli(['run', 'a task', '-w', workspace, '--plan', plan, '--json'], {
      env: { ...env, AGENTWEAVER_API_KEY: key },
    })
    runIds.push(JSON.parse(started.stdout.split('\n')[0] ?? '').runId)
  }
  const paths = {
    'all, as alice': ['/api/audit', keyOf.alice],
    'verification, as alice': ['/api/audit/verification', keyOf.alice],
    "alice's run, as alice": [`/api/runs/${runIds[1]}/audit`, keyOf.alice],
    "alice's run, as bob": [`/api/runs/${runIds[1]}/audit`, keyOf.bob],
    "alice's run, as the operator": [`/api/runs/${runIds[1]}/audit`, service.apiKey],
    'all, as the operator': ['/api/audit?limit=1000', service.apiKey],
    'the first two': ['/api/audit?limit=2', service.apiKey],
    'a filter that does not exist': ['/api/audit?owner=bob', service.apiKey],
    'a limit that is too high': ['/api/audit?limit=1001', service.apiKey],
    'refusals of one tool': ['/api/audit?decision=deny&tool=read_file', service.apiKey],
    'after the end of time': ['/api/audit?since=2999-01-01T00:00:00Z', service.apiKey],
    'of the deployment': ['/api/audit?run=deployment', service.apiKey],
  } as const
  for (const [name, [path, key]] of Object.entries(paths)) {
    const answer = await ask(path, key)
    answers[name] = { status: answer.status, json: (await answer.json()) as AuditPage }
  }
  const exported = (format: string) => runCli(['audit', 'export', '--format', format], { env })
  online = {
    verified: await runCli(['audit', 'verify'], { env }),
    ocsf: (await exported('ocsf')).stdout,
    jsonl: (await exported('jsonl')).stdout,
    shown: (await runCli(['audit', 'show', runIds[1] ?? ''], { env })).stdout,
  }
  await service.stop()
  await untilQuiet(folder)
  copy = stateDir
})

afterAll(() => rm(folder, { recursive: true, force: true }))

const linesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

describe('over HTTP', () => {
  test('a user reads only the audit of runs that they started', () => {
    expect(answers["alice's run, as alice"]?.status).toBe(200)
    expect(answers["alice's run, as alice"]?.json.items.length).toBeGreaterThan(4)
    expect(answers["alice's run, as bob"]?.status).toBe(404)
    expect(answers["alice's run, as the operator"]?.json).toEqual(answers["alice's run, as alice"]?.json)
    expect(answers['all, as alice']?.status).toBe(403)
    expect(answers['verification, as alice']?.status).toBe(403)
  })

  test('an operator reads the whole audit in pages, and filters are validated', () => {
    const all = answers['all, as the operator']?.json.items ?? []

    expect(answers['the first two']?.json).toEqual({ items: all.slice(0, 2), next: '2' })
    expect(answers['a filter that does not exist']?.status).toBe(400)
    expect(answers['a limit that is too high']?.status).toBe(400)
    expect(answers['refusals of one tool']?.json.items.length).toBeGreaterThan(0)
    expect(answers['after the end of time']?.json).toEqual({ items: [] })
    expect(answers['of the deployment']?.json.items.map(({ kind }) => kind)).toEqual([
      'key.created',
      'seal',
      'seal',
    ])
  })

  test('no record contains a parameter of a call', () => {
    expect(JSON.stringify(answers['all, as the operator']?.json)).not.toContain(SECRET)
  })
})

describe('the command line', () => {
  test('verifies through the service', () => {
    expect(online.verified.status).toBe(0)
    expect(online.verified.stdout).toMatch(/^The audit is intact: 3 chains, \d+ records\./)
  })

  test('exports lines that an independent OCSF validator accepts', () => {
    const events = linesOf(online.ocsf)
    const { $schema: _draft, ...schema } = ocsfSchema
    const ajv = new Ajv({ strict: false })
    const isEvent = ajv.compile(schema)

    const wrong = events.flatMap((event) => (isEvent(event) ? [] : [isEvent.errors]))

    expect(wrong).toEqual([])
    expect(events.length).toBe(answers['all, as the operator']?.json.items.length)
    const { api: _api, ...incomplete } = events[0]
    expect(isEvent(incomplete), 'an event without a required attribute').toBe(false)
  })

  test('shows and exports the same from a copied store as through the service', async () => {
    const at = await aCopy()
    const store = ['--store', join(at, 'store.db')]

    const shown = await runCli(['audit', 'show', runIds[1] ?? '', ...store])
    const exported = await runCli(['audit', 'export', '--format', 'jsonl', ...store])

    expect(shown.stdout).toBe(online.shown)
    expect(exported.stdout).toBe(online.jsonl)
  })

  test('refuses to verify a copy without its key, and refuses a file that is not a key', async () => {
    const at = await aCopy()
    const store = ['audit', 'verify', '--store', join(at, 'store.db')]

    const keyless = await runCli(store)
    const wrong = await runCli([...store, '--key', join(at, 'store.db')])
    const absent = await runCli([...store, '--key', join(at, 'none')])

    expect([keyless.status, wrong.status, absent.status]).toEqual([2, 2, 2])
    expect(wrong.stderr).toContain('does not contain a deployment key')
  })
})

describe('a copied store', () => {
  test('verifies an unchanged audit with its key (control)', async () => {
    const at = await aCopy()

    const { status, report } = await verifyCopy(at)

    expect(report).toMatchObject({ ok: true, isComplete: true, chains: 3, problems: [] })
    expect(status).toBe(0)
  })

  test("does not verify with another deployment's key", async () => {
    const at = await aCopy()
    await writeFile(join(at, 'keys/deployment.key'), Buffer.alloc(32, 7))

    const { status, report } = await verifyCopy(at)

    expect(status).toBe(1)
    expect(report.problems).toContainEqual({ chain: 'deployment', problem: 'unknownKey', at: 1 })
  })

  test.each([
    ['all records of a run', (id: string) => [`delete from audit where run_id = '${id}'`]],
    [
      'all records of a run, with its head reset to the empty one',
      (id: string) => [
        `delete from audit where run_id = '${id}'`,
        `update runs set audit_count = 0, audit_mac = '' where id = '${id}'`,
      ],
    ],
    [
      'all records of a run, and the run itself',
      (id: string) => [
        'pragma foreign_keys = off',
        `delete from audit where run_id = '${id}'`,
        `delete from runs where id = '${id}'`,
      ],
    ],
  ])('detects that %s were deleted', async (_, statements) => {
    const [id = ''] = runIds
    const at = await aCopy(...statements(id))

    const { status, report } = await verifyCopy(at)
    const one = await verifyCopy(at, id)
    const other = await verifyCopy(at, runIds[1] ?? '')

    expect(status).toBe(1)
    expect(report.problems).toEqual([{ chain: id, problem: 'truncated', at: 1 }])
    expect(one.report.problems).toEqual(report.problems)
    expect(other.report.ok, 'the other run').toBe(true)
  })

  test.each([
    [
      'the seal of a run, together with the run',
      (id: string) => [
        'pragma foreign_keys = off',
        `delete from audit where run_id = '${id}' or (tool = 'audit.seal' and record like '%${id}%')`,
        `delete from runs where id = '${id}'`,
      ],
      { chain: 'deployment', problem: 'dropped', at: 2 },
    ],
    [
      "the deployment's whole chain",
      () => [`delete from audit where run_id = ''`, 'delete from audit_heads'],
      { problem: 'unsealed' },
    ],
    [
      'one word of a record',
      (id: string) => [
        `update audit set record = replace(record, '"deny"', '"allow"'), decision = 'allow'
         where run_id = '${id}' and decision = 'deny'`,
      ],
      { problem: 'edited' },
    ],
    [
      'records of a run that never existed',
      () => [`update audit set run_id = 'run_${'0'.repeat(32)}' where run_id = '' and sequence = 3`],
      { chain: `run_${'0'.repeat(32)}`, problem: 'unknownRun', at: 1 },
    ],
    [
      'a forged record before the first one',
      (id: string) => [
        `insert into audit select -1, run_id, 0, at, tool, decision, record, mac from audit
         where run_id = '${id}' and sequence = 1`,
      ],
      { problem: 'duplicated', at: 1 },
    ],
  ])('detects that %s changed', async (_, statements, problem) => {
    const at = await aCopy(...statements(runIds[0] ?? ''))

    const { status, report } = await verifyCopy(at)

    expect(status).toBe(1)
    expect(report.problems).toContainEqual(expect.objectContaining(problem))
  })

  test('names a record that is not JSON, and still verifies the rest', async () => {
    const at = await aCopy(`update audit set record = 'x' where run_id = '${runIds[0]}' and sequence = 2`)

    const shown = await runCli(['audit', 'show', runIds[0] ?? '', '--store', join(at, 'store.db')])
    const { report } = await verifyCopy(at)

    expect(shown.status).toBe(6)
    expect(shown.stderr).toMatch(/Record 2 of run_\w+ is damaged.*agentweaver audit verify/)
    expect(report.problems).toEqual([{ chain: runIds[0], problem: 'edited', at: 2 }])
  })

  test('is not changed by reading', async () => {
    const at = await aCopy('pragma user_version = 77')
    const hash = async () =>
      createHash('sha256')
        .update(await readFile(join(at, 'store.db')))
        .digest('hex')
    const before = await hash()

    await verifyCopy(at)

    expect(await hash()).toBe(before)
  })

  test('reports a file that is not a store', async () => {
    const at = await aFolder('aw-audit-none-')
    await writeFile(join(at, 'store.db'), 'not a database')

    const wrong = await runCli(['audit', 'show', 'deployment', '--store', join(at, 'store.db')])
    const absent = await runCli(['audit', 'show', 'deployment', '--store', join(at, 'other.db')])

    expect(wrong.status).toBe(2)
    expect(wrong.stderr).toContain('cannot be read as a store')
    expect(absent.status).toBe(3)
  })
})
