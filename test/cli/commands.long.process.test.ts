import { spawnSync } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Approval } from '../../contracts/api.ts'
import type { RunEvent } from '../../contracts/events.ts'
import type { ExecResult } from '../../contracts/exec.ts'
import { done, queued } from './events.ts'
import { aRun, FAKE_KEY, type FakeService, RUN_ID, refusal, startFakeService } from './fake-service.ts'
import { aFolder, runCli } from './run-cli.ts'

const loginTo = ({ url }: FakeService) => ({ AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: FAKE_KEY })
const SILENT_URL = 'http://127.0.0.1:1'

const COMMANDS = [
  ['run'],
  ['runs'],
  ['show'],
  ['logs'],
  ['turn'],
  ['cancel'],
  ['approve'],
  ['deny'],
  ['answer'],
  ['exec'],
  ['sandbox', 'create'],
  ['sandbox', 'ls'],
  ['sandbox', 'exec'],
  ['sandbox', 'rm'],
  ['doctor'],
  ['config'],
  ['login'],
  ['logout'],
  ['move-state'],
  ['capacity'],
  ['demo'],
  ['audit', 'show'],
  ['audit', 'verify'],
  ['audit', 'export'],
]

test.each(COMMANDS)('"%s %s" has a help text with an example and accepts --json', async (...words) => {
  const argv = words.filter((word) => word !== undefined)

  const { status, stdout } = await runCli([...argv, '--help'])

  expect(status).toBe(0)
  expect(stdout).toContain(`Usage: agentweaver ${argv.join(' ')}`)
  expect(stdout).toContain('--json')
  expect(stdout).toMatch(/Example:\n {2}\S/)
})

describe('bad input exits with 2 and an explanation', () => {
  test.each([
    [['frobnicate'], 'unknown command'],
    [['runs', '--limt', '3'], '--limit'],
    [['runs', '--limit', 'many'], '--limit'],
    [['show'], "missing required argument 'run'"],
    [['run', 'x'], '--workspace DIR'],
    [['run', 'x', '-w', '/does/not/exist'], 'not a folder'],
    [['run', 'x', '-w', '/etc/passwd'], 'not a folder'],
    [['run', 'x', '--empty-workspace', '-w', '/tmp'], 'only one'],
    [['run', 'x', '--empty-workspace', '--ref', 'main'], 'give it with --git URL'],
    [['run', 'x', '--empty-workspace', '--agent', 'oracle'], 'scripted, copilot, openai'],
    [['run', 'x', '--empty-workspace', '--agent', 'scripted'], '--plan FILE'],
    [['run', 'x', '--empty-workspace', '--plan', '/nowhere.json'], 'cannot be read'],
    [['run', 'x', '--empty-workspace', '--agent', 'copilot', '-i'], 'needs a terminal'],
    [['run', 'x', '--empty-workspace', '--label', 'novalue'], 'key=value'],
    [['logs', RUN_ID, '--after', '-3'], '--after'],
    [['exec', RUN_ID, '--timeout', '0', 'ls'], '--timeout'],
    [['approve', RUN_ID, 'req', '--scope', 'forever'], '--scope'],
    [['runs', '--url', 'ftp://somewhere'], 'not an http'],
    [['demo', '--model', 'x'], 'OPENAI_BASE_URL'],
  ])('%j', async (argv, expected) => {
    const { status, stdout, stderr } = await runCli(argv)

    expect(stderr).toContain(expected)
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  })

  test('lists every problem of a plan', async () => {
    const folder = await aFolder('aw-plan-test-')
    const file = join(folder, 'plan.json')
    await writeFile(file, JSON.stringify({ turns: [[{ kind: 'say' }, { kind: 'dance' }]] }))

    const { status, stderr } = await runCli(['run', 'x', '--empty-workspace', '--plan', file])

    expect(status).toBe(2)
    expect(stderr).toContain('turns.0.0.text')
    expect(stderr).toContain('turns.0.1')
  })
})

describe('exit status', () => {
  test('3: the run does not exist', async () => {
    await using service = await startFakeService()

    const { status, stderr } = await runCli(['show', `run_${'f'.repeat(32)}`], { env: loginTo(service) })

    expect(status).toBe(3)
    expect(stderr).toContain('agentweaver runs')
  })

  test('4: the key is not accepted', async () => {
    await using service = await startFakeService()

    const env = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: 'wrong' }
    const { status, stderr } = await runCli(['runs'], { env })

    expect(status).toBe(4)
    expect(stderr).toContain('agentweaver login')
  })

  test('4: there is no key at all', async () => {
    await using service = await startFakeService()

    const { status } = await runCli(['runs', '--url', service.url])

    expect(status).toBe(4)
  })

  test('5: the service is not reachable, and a named service is not replaced by a new one', async () => {
    const { status, stderr } = await runCli(['runs'], {
      env: { AGENTWEAVER_URL: SILENT_URL, AGENTWEAVER_API_KEY: 'x' },
    })

    expect(status).toBe(5)
    expect(stderr).toContain('agentweaver serve')
  })

  test('6: the service refuses', async () => {
    await using service = await startFakeService()
    service.answer = ({ path }) =>
      path.endsWith('/turns') ? refusal('run_ended', 'The run has ended.') : undefined

    const { status, stderr } = await runCli(['turn', RUN_ID, 'go on'], { env: loginTo(service) })

    expect(status).toBe(6)
    expect(stderr).toContain('The run has ended.')
  })

  test('2: lists the fields that the service rejects', async () => {
    await using service = await startFakeService()
    service.answer = ({ method }) =>
      method === 'POST'
        ? {
            status: 400,
            body: {
              title: 'bad',
              status: 400,
              code: 'invalid_request',
              detail: 'The request has problems.',
              errors: [{ field: 'workspace.path', message: 'must lie under a root' }],
            },
          }
        : undefined

    const argv = ['sandbox', 'create', '-w', await aFolder('aw-fields-test-')]
    const { status, stderr } = await runCli(argv, { env: loginTo(service) })
    expect(status).toBe(2)
    expect(stderr).toContain('--workspace: must lie under a root')
  })
})

describe('connection settings', () => {
  test.each([
    ['run', 'x', '--agent', 'copilot', '-w', '.'],
    ['sandbox', 'create', '-w', '.'],
  ])('keys of a service are never inside a workspace: %s', async (...argv) => {
    await using service = await startFakeService()
    const folder = await aFolder('aw-keys-test-')
    await mkdir(join(folder, '.agentweaver'))
    await writeFile(join(folder, '.agentweaver', 'api-key'), FAKE_KEY)

    const { status, stderr } = await runCli(argv, { env: loginTo(service), cwd: folder })

    expect(status).toBe(2)
    expect(stderr).toContain('contains the keys')
    expect(service.requests).toEqual([])
  })

  test('config shows where each value comes from and hides secrets', async () => {
    const env = {
      AGENTWEAVER_URL: SILENT_URL,
      AGENTWEAVER_API_KEY: 'awk_very-secret',
      OPENAI_API_KEY: 'sk-hidden',
    }

    const { stdout } = await runCli(['config', '--json'], { env })

    const { client, service } = JSON.parse(stdout)
    expect(client.url).toEqual({ value: SILENT_URL, from: 'AGENTWEAVER_URL' })
    expect(client['state folder'].from).toBe('default')
    expect(client['api key'].from).toBe('AGENTWEAVER_API_KEY')
    expect(service).toContainEqual({ key: 'AGENTWEAVER_PORT', value: '8080', isSet: false, default: '8080' })
    expect(stdout).not.toMatch(/very-secret|sk-hidden/)
  })
})

describe('runs, show and logs', () => {
  test('print a table for people and the page for scripts', async () => {
    await using service = await startFakeService()

    const people = await runCli(['runs'], { env: loginTo(service) })
    const scripts = await runCli(['runs', '--json'], { env: loginTo(service) })

    expect(people.stdout).toMatch(/^ID +STATE +AGE +AGENT +TASK\nrun_0+1 +running +.* +scripted +fix it\n$/)
    expect(JSON.parse(scripts.stdout)).toEqual({ items: [aRun()] })
  })

  test('show a pending request and how to decide it', async () => {
    await using service = await startFakeService()
    service.approvals = [anOpenApproval()]

    const { stdout } = await runCli(['show', RUN_ID], { env: loginTo(service) })

    expect(stdout).toContain(`agentweaver approve ${RUN_ID} req-1`)
  })

  test('logs start after the given event', async () => {
    await using service = await startFakeService()
    service.publish(queued, { type: 'agent.intent', data: { intent: 'second' } }, done('succeeded'))

    const { stdout } = await runCli(['logs', RUN_ID, '--after', '1', '--json'], { env: loginTo(service) })

    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).sequence),
    ).toEqual([2, 3])
  })

  test('logs -f follows to the end and prints the result of the run', async () => {
    await using service = await startFakeService()
    service.publish(queued, done('failed'))

    const { status, stdout } = await runCli(['logs', '-f', RUN_ID], { env: loginTo(service) })

    expect(status).toBe(1)
    expect(stdout).toContain('failed')
  })
})

describe('approve and deny', () => {
  test.each(['req-1', '0123456789abcdef'])('find the request by %s', async (name) => {
    await using service = await startFakeService()
    service.approvals = [anOpenApproval()]
    service.answer = ({ path }) =>
      path.endsWith('/shell-approvals') ? { body: anOpenApproval({ state: 'approved' }) } : undefined

    const { status, stdout } = await runCli(['approve', RUN_ID, name], { env: loginTo(service) })

    expect({ status, stdout }).toEqual({ status: 0, stdout: 'req-1  approved\n' })
    expect(service.requests.at(-1)?.body).toEqual({ requestId: 'req-1', scope: 'once' })
  })

  test('deny of a tool call uses the route for tools and sends the reason', async () => {
    await using service = await startFakeService()
    service.approvals = [anOpenApproval({ tool: 'create', commandHash: undefined })]
    service.answer = ({ path }) =>
      path.endsWith('/tool-denials') ? { body: anOpenApproval({ state: 'denied' }) } : undefined

    const { status } = await runCli(['deny', RUN_ID, 'req-1', '--reason', 'not now'], {
      env: loginTo(service),
    })

    expect(status).toBe(0)
    expect(service.requests.at(-1)?.body).toEqual({ requestId: 'req-1', reason: 'not now' })
  })

  test('a request that is already decided exits with 6', async () => {
    await using service = await startFakeService()
    service.approvals = [anOpenApproval({ state: 'expired' })]

    const { status, stderr } = await runCli(['approve', RUN_ID, 'req-1'], { env: loginTo(service) })

    expect(status).toBe(6)
    expect(stderr).toContain('expired')
  })

  test('an ambiguous command hash is not guessed', async () => {
    await using service = await startFakeService()
    service.approvals = [anOpenApproval(), anOpenApproval({ requestId: 'req-2' })]

    const { status, stderr } = await runCli(['approve', RUN_ID, '0123456789abcdef'], {
      env: loginTo(service),
    })

    expect(status).toBe(2)
    expect(stderr).toContain('req-2')
  })
})

describe('exec', () => {
  const commandEvents = (result: Partial<ExecResult>): RunEvent[] => [
    queued,
    { type: 'command.output', data: { commandId: 'cmd', stream: 'stdout', chunk: 'out\n' } },
    { type: 'command.output', data: { commandId: 'other', stream: 'stdout', chunk: 'not mine\n' } },
    { type: 'command.output', data: { commandId: 'cmd', stream: 'stderr', chunk: 'err\n' } },
    { type: 'command.exited', data: { commandId: 'cmd', result: aResult(result) } },
  ]
  const withCommand = (service: FakeService) => {
    service.answer = ({ path }) =>
      path.endsWith('/commands') ? { status: 202, body: { commandId: 'cmd', afterSequence: 1 } } : undefined
  }

  test.each([
    [{ exitCode: 0 }, 0],
    [{ exitCode: 42 }, 42],
    [{ exitCode: null, signal: 'SIGKILL', reason: 'signal' }, 137],
    [{ exitCode: null, signal: 'SIGKILL', timedOut: true, reason: 'timeout' }, 124],
  ] as const)('passes the outcome %j through as %i', async (result, expected) => {
    await using service = await startFakeService()
    withCommand(service)
    service.publish(...commandEvents(result))

    const { status, stdout, stderr } = await runCli(['exec', RUN_ID, '--', 'make', 'a b'], {
      env: loginTo(service),
    })

    expect({ status, stdout, stderr }).toEqual({ status: expected, stdout: 'out\n', stderr: 'err\n' })
    expect(service.requests.find(({ path }) => path.endsWith('/commands'))?.body).toMatchObject({
      command: "make 'a b'",
      timeoutMs: 30_000,
      network: false,
    })
  })

  test.each([
    [{ exitCode: 0, stdoutBytes: 4_194_305 }, 125],
    [{ exitCode: 7, stdoutBytes: 4_194_305 }, 7],
    [{ exitCode: null, signal: 'SIGKILL', reason: 'signal', stdoutBytes: 4_194_305 }, 137],
    [{ exitCode: null, signal: 'SIGKILL', timedOut: true, reason: 'timeout', stdoutBytes: 4_194_305 }, 124],
  ] as const)('reports the cut output of %j on stderr and ends with %i', async (result, expected) => {
    await using service = await startFakeService()
    withCommand(service)
    service.publish(...commandEvents({ ...result, outputTruncated: true }))

    for (const more of [[], ['--json']]) {
      const { status, stderr } = await runCli(['exec', ...more, RUN_ID, 'make'], { env: loginTo(service) })
      expect(status).toBe(expected)
      expect(stderr).toContain('stdout was cut: the command wrote 4194305 bytes')
      expect(stderr).not.toContain('stderr was cut')
    }
  })

  test.each(['exec', 'sandbox exec'])('%s: the help lists the exit statuses', async (name) => {
    const { stdout } = await runCli([...name.split(' '), '--help'])
    expect(stdout).toMatch(/125\s+stopped[^;]+full,\s+or[^;]+4\s+MiB/)
  })

  test('sends its own input with --stdin', async () => {
    await using service = await startFakeService()
    withCommand(service)
    service.publish(...commandEvents({}))

    await runCli(['exec', '--stdin', RUN_ID, 'cat'], { env: loginTo(service), input: 'hello' })

    const { body } = service.requests.find(({ path }) => path.endsWith('/commands')) ?? {}
    expect(body).toMatchObject({ command: 'cat', stdin: Buffer.from('hello').toString('base64') })
  })
})

test('bin.js runs the command with the pinned Node and returns its exit status', async () => {
  const bin = join(import.meta.dirname, '../../cli/bin.js')
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8'))

  const asked = spawnSync('node', [bin, '--version'], { encoding: 'utf8' })
  const wrong = spawnSync('node', [bin, 'frobnicate'], { encoding: 'utf8' })

  expect({ status: asked.status, stdout: asked.stdout }).toEqual({ status: 0, stdout: `${version}\n` })
  expect(wrong.status).toBe(2)
})

const aResult = (change: Partial<ExecResult> = {}): ExecResult => ({
  exitCode: 0,
  signal: null,
  timedOut: false,
  outputTruncated: false,
  stdoutBytes: 4,
  stderrBytes: 4,
  reason: 'exit',
  durationMs: 12,
  ...change,
})

const anOpenApproval = (change: { [K in keyof Approval]?: Approval[K] | undefined } = {}): Approval => {
  const whole = {
    requestId: 'req-1',
    runId: RUN_ID,
    callId: 'call-1',
    tool: 'run_command',
    state: 'pending',
    commandHash: '0123456789abcdef',
    expiresAt: '2026-01-01T00:15:00.000Z',
    ...change,
  }
  return whole as Approval
}
