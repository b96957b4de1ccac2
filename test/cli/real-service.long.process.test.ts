import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, startAtTerminal, startCli, until, untilQuiet } from './run-cli.ts'

const DELETE = 'rm -rf build'

const command = (line: string): PlanStep => ({
  kind: 'tool',
  tool: 'run_command',
  arguments: { command: line },
})
const outcome = (given: 'succeeded' | 'failed'): PlanStep => ({
  kind: 'tool',
  tool: 'report_outcome',
  arguments: { outcome: given },
})

let folder: string
let workspace: string
let service: OwnService
let env: Record<string, string>

/** Writes a plan and returns the arguments that run it in the workspace. */
async function planned(...turns: PlanStep[][]): Promise<string[]> {
  const file = join(folder, `plan-${crypto.randomUUID()}.json`)
  await writeFile(file, JSON.stringify({ turns }))
  return ['run', 'a task', '-w', workspace, '--plan', file]
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-cli-test-'))
  workspace = join(folder, 'workspace')
  await mkdir(workspace)
  service = await startOwnService(folder, { AGENTWEAVER_WORKSPACE_ROOTS: folder })
  // A folder is uploaded to a service at a URL, so the service is reached over its socket.
  env = { AGENTWEAVER_STATE_DIR: join(folder, 'state') }
})

afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true })
})

test('rejects a malformed id and says where to find ids', async () => {
  const wrong = await runCli(['show', 'run_nope'], { env })
  const absent = await runCli(['show', `run_${'0'.repeat(32)}`], { env })

  expect(wrong.status).toBe(2)
  expect(wrong.stderr).toMatch(/This is not an id.*\n.*agentweaver runs/)
  expect(absent.status).toBe(3)
})

test('explains which folders work if the service does not have the folder', async () => {
  const { status, stderr } = await runCli(['sandbox', 'create', '-w', '/etc'], {
    env: { AGENTWEAVER_STATE_DIR: join(folder, 'state') },
  })

  expect(status).toBe(2)
  expect(stderr).toContain('AGENTWEAVER_WORKSPACE_ROOTS="$HOME":/etc agentweaver serve')
  expect(stderr).toContain(`/etc is outside the folders that this service may work in`)
  expect(stderr).not.toMatch(/workspace\.path|workspace_invalid/)
})

test.each([
  [['run', '', '--empty-workspace', '--plan', 'PLAN'], 'the task: must not be empty'],
  [['run', 'x', '--empty-workspace', '--agent', 'copilot'], 'agentweaver credential set github'],
  [['run', 'x', '--empty-workspace', '--agent', 'openai'], 'An agent of kind openai needs an endpoint'],
  [['run', 'x', '--empty-workspace', '--plan', 'PLAN', '--label', 'a b=c'], '--label a b: is not a name'],
  [['exec', `sbx_${'0'.repeat(32)}`, '-e', 'A B=1', '--', 'true'], '--env A B: is not a name'],
  [['runs', '--after', 'zzz'], '--after names no run'],
  [['runs', '--limit', 'many'], '--limit: must be a number'],
  [['sandbox', 'rm', `sbx_${'0'.repeat(32)}`], 'There is no sandbox'],
])('rejects %j in terms of the command line', async (words, expected) => {
  const plan = (await planned([outcome('succeeded')])).at(-1) ?? ''

  const { status, stderr } = await runCli(
    words.map((word) => (word === 'PLAN' ? plan : word)),
    { env },
  )

  expect(stderr).toContain(expected)
  expect([2, 3]).toContain(status)
  expect(stderr).not.toMatch(
    /invalid_request|not_found|Too small|NaN|expected |(?<!models\.)openaiCompatible|body/,
  )
})

describe('a run from the command line', () => {
  test('exits with 0, and the run can be listed, shown and read from any event', async () => {
    const started = await runCli([...(await planned([command('echo hi > made')])), '--json'], { env })
    const lines = started.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const id = lines[0].runId
    const runs = await runCli(['runs', '--json'], { env })
    const shown = await runCli(['show', id], { env })
    const logs = await runCli(['logs', id, '--after', String(lines.length - 1), '--json'], { env })

    expect(started.status).toBe(0)
    expect(lines.at(-1).event).toEqual({ type: 'done', data: { state: 'succeeded' } })
    expect(await readFile(join(workspace, 'made'), 'utf8')).toBe('hi\n')
    expect(JSON.parse(runs.stdout).items).toContainEqual(expect.objectContaining({ id, state: 'succeeded' }))
    expect(shown.stdout).toMatch(/state +succeeded/)
    expect(
      logs.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual(lines.slice(-1))
  })

  test('exits with 1 if the agent reports a failure', async () => {
    const { status } = await runCli(await planned([outcome('failed')]), { env })

    expect(status).toBe(1)
  })

  test('waits for an approval from another terminal', async () => {
    const child = startCli(await planned([command(DELETE)]), { env })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      said += chunk
    })
    await until(
      'it asks',
      () => /agentweaver approve \S+ \S+/.test(said),
      () => said,
    )
    const [, runId = '', requestId = ''] = said.match(/agentweaver approve (\S+) (\S+)/) ?? []

    const approved = await runCli(['approve', runId, requestId], { env })
    const again = await runCli(['approve', runId, requestId], { env })

    await until('the run ends', () => child.exitCode !== null)
    expect(approved).toMatchObject({ status: 0, stdout: `${requestId}  approved\n` })
    expect(again.status).toBe(6)
    expect(child.exitCode).toBe(0)
  })

  test('continues without a denied command', async () => {
    await using terminal = startAtTerminal(await planned([command(DELETE), outcome('succeeded')]), { env })

    await terminal.shows('Allow it?')
    terminal.type('n keep it\r')

    expect(await terminal.exited).toBe(0)
    expect(terminal.screen()).toContain('keep it')
  })

  test('says how to continue if the service was killed', async () => {
    const home = await mkdtemp(join(folder, 'killed-'))
    const killed = await startOwnService(home, { AGENTWEAVER_WORKSPACE_ROOTS: folder })
    const login = { AGENTWEAVER_URL: killed.url, AGENTWEAVER_API_KEY: killed.apiKey }
    await using terminal = startAtTerminal(await planned([command(DELETE)]), { env: login })
    await terminal.shows('Allow it?')

    process.kill(killed.pid, 'SIGKILL')
    await terminal.shows('The service does not respond. Retrying')
    terminal.type('y\r')

    expect(await terminal.exited).toBe(5)
    expect(terminal.screen()).toMatch(/agentweaver logs -f run_\w+ --after \d+/)
  })

  test('is cancelled by Ctrl-C and a yes', async () => {
    await using terminal = startAtTerminal(await planned([command('sleep 600')]), { env })
    await terminal.shows('sleep 600')

    terminal.type('\u0003')
    await terminal.shows('Cancel the run?')
    terminal.type('y\r')

    expect(await terminal.exited).toBe(130)
    expect(terminal.screen()).toContain('cancelled')
  })

  test('accepts further turns and a final one', async () => {
    const plan = await planned(
      [{ kind: 'say', text: 'first answer' }],
      [{ kind: 'say', text: 'second answer' }],
    )
    const { stdout } = await runCli([...plan, '--interactive', '--detach'], { env })
    const id = stdout.trim()

    const turn = await runCli(['turn', id, 'go on', '--final'], { env })

    expect(turn.status).toBe(0)
    expect(turn.stdout).toContain('second answer')
    expect(turn.stdout).toContain('done  succeeded')
  })

  test('can be cancelled from another terminal', async () => {
    const { stdout } = await runCli([...(await planned([command('sleep 600')])), '--detach'], { env })

    const { status } = await runCli(['cancel', stdout.trim()], { env })
    const after = await runCli(['logs', '-f', stdout.trim()], { env })

    expect(status).toBe(0)
    expect(after.status).toBe(1)
    expect(after.stdout).toContain('done  cancelled')
  })
})

/** Starts a command that its timeout ends. The timeout is raised if the command had not started yet. */
async function execIntoTimeout(id: string) {
  for (const seconds of ['1', '5', '25']) {
    const ended = await runCli(['exec', '--timeout', seconds, id, 'echo partial; sleep 600'], { env })
    if (ended.stdout !== '') return ended
  }
  throw new Error('the command did not say that it runs')
}

test('a sandbox is created, runs commands, and is destroyed', async () => {
  const created = await runCli(['sandbox', 'create'], { env })
  const id = created.stdout.trim()
  const failing = await runCli(['sandbox', 'exec', id, '--', 'sh', '-c', 'echo out; echo err >&2; exit 7'], {
    env,
  })
  const piped = await runCli(['exec', '--stdin', id, 'wc -c'], { env, input: 'four' })
  const fitting = await runCli(['sandbox', 'exec', id, 'head -c 4194304 /dev/zero | tr "\\0" x'], { env })
  const cut = await runCli(['sandbox', 'exec', id, 'head -c 5000000 /dev/zero | tr "\\0" x'], { env })
  const slow = await execIntoTimeout(id)
  const listed = await runCli(['sandbox', 'ls'], { env })
  const removed = await runCli(['sandbox', 'rm', id], { env })
  const gone = await runCli(['exec', `sbx_${'0'.repeat(32)}`, 'true'], { env })

  expect(created.status).toBe(0)
  expect(failing).toMatchObject({ status: 7, stdout: 'out\n', stderr: 'err\n' })
  expect(piped.stdout.trim()).toBe('4')
  expect({ ...fitting, stdout: fitting.stdout.length }).toEqual({ status: 0, stdout: 4_194_304, stderr: '' })
  expect({ status: cut.status, stdout: cut.stdout.length }).toEqual({ status: 125, stdout: 4_194_304 })
  expect(cut.stderr).toMatch(
    /^stdout was cut: the command wrote 5000000 bytes.*\n.*exec RUN "COMMAND > FILE"/,
  )
  expect(slow).toMatchObject({ status: 124, stdout: 'partial\n' })
  expect(listed.stdout).toContain(id)
  expect(removed.status).toBe(0)
  expect(gone.status).toBe(3)
})

describe('without a running service', () => {
  const aHome = () => mkdtemp(join(tmpdir(), 'aw-home-test-'))

  test('run starts a service, keeps the results, and leaves no process', async () => {
    const home = await aHome()
    const settings = { env: { HOME: home }, cwd: home }

    const run = await runCli([...(await planned([command('pwd')])), '--json'], settings)
    const runs = await runCli(['runs'], settings)

    expect(run.stderr).toContain(`Starting one for this command (store: ${home}/.local/state/agentweaver)`)
    expect(run.status).toBe(0)
    expect(runs.stdout).toMatch(/run_\w+ +succeeded/)
    await untilQuiet(home)
    await rm(home, { recursive: true })
  })

  test("uses the user's store, and the project contains only settings", async () => {
    const home = await aHome()
    const project = join(home, 'project')
    await mkdir(join(project, '.agentweaver'), { recursive: true })
    await writeFile(join(project, '.agentweaver', 'settings.yml'), 'shell_enabled: true\n')
    const [, , , , ...plan] = await planned([command('ls -A .agentweaver')])
    const settings = { env: { HOME: home }, cwd: project }

    const { status, stderr } = await runCli(['run', 'a task', '-w', '.', ...plan], settings)

    expect(stderr).toContain(`${home}/.local/state/agentweaver`)
    expect(status).toBe(0)
    expect(await readdir(join(project, '.agentweaver'))).toEqual(['settings.yml'])
    expect(await readdir(join(home, '.local/state/agentweaver'))).toContain('api-key')
    await rm(home, { recursive: true })
  })

  test('a waiting run is decided from another terminal in any folder', async () => {
    const home = await aHome()
    const settings = { env: { HOME: home }, cwd: home }
    const child = startCli(await planned([command(DELETE)]), settings)
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      said += chunk
    })
    await until(
      'it asks',
      () => /agentweaver approve \S+ \S+/.test(said),
      () => said,
    )
    const [, ...words] = said.match(/agentweaver (approve) (\S+) (\S+)/) ?? []

    const approved = await runCli(words, { env: { HOME: home }, cwd: '/' })

    await until('the run ends', () => child.exitCode !== null)
    expect(approved.status).toBe(0)
    expect(child.exitCode).toBe(0)
    await untilQuiet(home)
    await rm(home, { recursive: true })
  })

  test('Ctrl-C twice ends the run and the service that was started for it', async () => {
    const home = await aHome()
    const argv = await planned([command('sleep 600')])
    const settings = { env: { HOME: home }, cwd: home }
    await using terminal = startAtTerminal(argv, settings)
    await terminal.shows('sleep 600')

    terminal.type('\u0003')
    await terminal.shows('Cancel the run?')
    terminal.type('\u0003')

    expect(await terminal.exited).toBe(130)
    expect(terminal.screen()).toContain('the run ends with it')
    await untilQuiet(home)
    const { stdout } = await runCli(['runs', '--json'], settings)
    expect(JSON.parse(stdout).items).toMatchObject([{ state: 'failed', failure: { code: 'api_restarted' } }])
    await rm(home, { recursive: true })
  })

  test.each([[['runs']], [['sandbox', 'create']], [['cancel', 'run_1']]])(
    '%j fails with an explanation',
    async (argv) => {
      const home = await aHome()

      const { status, stderr } = await runCli(argv, {
        env: { HOME: home },
        cwd: home,
      })

      expect(status).toBe(5)
      expect(stderr).toContain('agentweaver serve')
      await rm(home, { recursive: true })
    },
  )
})

describe('setup commands', () => {
  const settings = 'setup_commands: [echo prepared by the folder > prepared]\n'

  async function aPreparedFolder(name: string): Promise<string> {
    const path = join(folder, name)
    await mkdir(join(path, '.agentweaver'), { recursive: true })
    await writeFile(join(path, '.agentweaver', 'settings.yml'), settings)
    return path
  }

  test('of the folder run before the first turn, --setup replaces them, and --no-setup runs none', async () => {
    const path = await aPreparedFolder('prepared')
    const args = [
      ...(await planned([command('cat prepared; rm -f prepared'), outcome('succeeded')])),
      '-w',
      path,
    ]

    const ofFolder = await runCli(args, { env })
    const given = await runCli([...args, '--setup', 'echo one, two > prepared', '--setup', 'cat prepared'], {
      env,
    })
    const none = await runCli([...args, '--no-setup'], { env })

    expect(ofFolder.stdout).toMatch(
      /setup {2}echo prepared by the folder > prepared {2}1 of 1\n[\s\S]*setup {2}done in .*\n[\s\S]*run {2}cat prepared[\s\S]*prepared by the folder\n/,
    )
    expect(given.stdout).toMatch(
      /1 of 2\n[\s\S]*setup {2}cat prepared {2}2 of 2\n[\s\S]*one, two\n[\s\S]*setup {2}done[\s\S]*one, two\n/,
    )
    expect(none.stdout).not.toContain('setup')
    expect([ofFolder.status, given.status, none.status]).toEqual([0, 0, 0])
  })

  test('that fail end the run, with the command and its output', async () => {
    const path = await aPreparedFolder('broken')
    const args = [...(await planned([outcome('succeeded')])), '-w', path]

    const { status, stdout } = await runCli([...args, '--setup', 'echo no such package; exit 3'], { env })

    expect(status).toBe(1)
    expect(stdout).toMatch(
      /setup {2}failed in [\s\S]*failed {2}The setup command 1 of 1 \(echo no such package; exit 3\) ended with exit code 3[\s\S]*--no-setup[\s\S]*no such package[\s\S]*\(setup_failed\)/,
    )
  })

  test('prepare a sandbox without an agent before it serves', async () => {
    const path = await aPreparedFolder('sandbox')

    const created = await runCli(['sandbox', 'create', '-w', path], { env })
    const id = created.stdout.trim()
    const { stdout } = await runCli(['sandbox', 'exec', id, '--', 'cat', 'prepared'], { env })
    await runCli(['sandbox', 'rm', id], { env })

    expect(stdout).toBe('prepared by the folder\n')
  })
})
