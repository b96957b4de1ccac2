import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { until } from '../helpers/until.ts'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, startAtTerminal, untilQuiet } from './run-cli.ts'

const STRICT = 'shell_enabled: false\nredact_pii: true\n'
const WEAK = 'shell_enabled: true\nredact_pii: true\nnetwork_enabled: true\n'

let folder: string
let plan: string
let service: OwnService
let client: Client
let env: Record<string, string>
let projects = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-trust-test-'))
  plan = join(folder, 'plan.json')
  await writeFile(plan, JSON.stringify({ turns: [[{ kind: 'say', text: 'hello' }]] }))
  service = await startOwnService(folder, { AGENTWEAVER_WORKSPACE_ROOTS: folder })
  client = createClient({ url: service.url, apiKey: service.apiKey })
  env = { AGENTWEAVER_STATE_DIR: join(folder, 'state') }
})

afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true })
})

const writeSettings = (project: string, text: string) =>
  writeFile(join(project, '.agentweaver/settings.yml'), text)

async function aProject(settings?: string, name = `project-${++projects}`): Promise<string> {
  const project = join(folder, name)
  await mkdir(join(project, '.agentweaver'), { recursive: true })
  if (settings !== undefined) await writeSettings(project, settings)
  return project
}

/** A project whose strict settings are in force and whose file is another one. */
async function aChangedProject(name?: string): Promise<string> {
  const path = await aProject(STRICT, name)
  const { file } = await client.compareSettings({ path })
  await client.trustFolder({ path, digest: file.digest })
  await writeSettings(path, WEAK)
  return path
}

const inForce = async (path: string): Promise<string | undefined> =>
  (await client.compareSettings({ path })).inForce?.text

const unwrapped = (text: string) => text.replaceAll(/\s+/g, ' ')
const DIFFERENCE = [
  '-shell_enabled: false',
  '+shell_enabled: true',
  ' redact_pii: true',
  '+network_enabled: true',
  'Changes for runs:',
  '  shell_enabled: false → true',
  'Not granted: network_enabled: the network is off; it needs network_enabled: true in AGENTWEAVER_CEILING_FILE, and no network_enabled: false in the settings of the folder',
]

describe('trust', () => {
  test('shows the difference, asks, and puts the file in force after a yes', async () => {
    const project = await aChangedProject()
    await using terminal = startAtTerminal(['trust', project], { env })

    await terminal.shows('Put this file in force?')
    terminal.type('y\r')

    expect(await terminal.exited).toBe(0)
    for (const line of DIFFERENCE) expect(terminal.screen()).toContain(line)
    expect(terminal.screen()).toContain(`The settings are now in force for your runs in ${project}.`)
    expect(await inForce(project)).toBe(WEAK)
  })

  test.each([
    ['a no', 'n\r', 6],
    ['an empty line', '\r', 6],
    ['any other answer', 'yolo\r', 6],
    ['the end of the input', '\u0004', 6],
    ['Ctrl-C', '\u0003', 130],
  ])('changes nothing after %s', async (_what, keys, status) => {
    const project = await aChangedProject()
    await using terminal = startAtTerminal(['trust', project], { env })

    await terminal.shows('Put this file in force?')
    terminal.type(keys)

    expect(await terminal.exited).toBe(status)
    expect(terminal.screen()).toMatch(/nothing was changed/i)
    expect(await inForce(project)).toBe(STRICT)
  })

  test('does not put in force a file that changed while it asked', async () => {
    const project = await aChangedProject()
    await using terminal = startAtTerminal(['trust', project], { env })
    await terminal.shows('Put this file in force?')

    await writeSettings(project, 'redact_pii: false\n')
    terminal.type('y\r')

    expect(await terminal.exited).toBe(6)
    expect(unwrapped(terminal.screen())).toContain('is not what was compared any more')
    expect(await inForce(project)).toBe(STRICT)
  })

  test('does not ask without a terminal: it shows the difference, and --yes confirms', async () => {
    const project = await aChangedProject()

    const unconfirmed = await runCli(['trust'], { env, cwd: project, input: 'y\n' })
    const still = await inForce(project)
    const confirmed = await runCli(['trust', '--yes'], { env, cwd: project })
    const again = await runCli(['trust'], { env, cwd: project })

    expect(unconfirmed.status).toBe(6)
    expect(unconfirmed.stdout.split('\n')).toEqual(expect.arrayContaining(DIFFERENCE))
    expect(unconfirmed.stderr).toContain('--yes')
    expect(still).toBe(STRICT)
    expect(confirmed.status).toBe(0)
    expect(again).toMatchObject({ status: 0, stdout: expect.stringContaining('nothing to do') })
  })

  test('prints one object with --json, and the difference on stderr', async () => {
    const project = await aChangedProject()

    const shown = await runCli(['trust', project, '--json'], { env })
    const trusted = await runCli(['trust', project, '--json', '--yes'], { env })

    expect(shown.status).toBe(6)
    expect(shown.stderr).toContain('+shell_enabled: true')
    expect(JSON.parse(shown.stdout)).toMatchObject({
      path: project,
      isSame: false,
      inForce: { text: STRICT, origin: 'trust' },
      file: { text: WEAK, notGranted: [expect.stringContaining('network_enabled')] },
    })
    expect(trusted.status).toBe(0)
    expect(JSON.parse(trusted.stdout)).toMatchObject({ isSame: true, inForce: { text: WEAK } })
  })

  test('shows which settings no longer apply', async () => {
    const project = await aChangedProject()
    await writeSettings(project, 'budgets: { steps: 3 }\nrequire_outcome: true\n')
    await runCli(['trust', project, '--yes'], { env })
    await writeSettings(project, '# nothing\n')

    const { stdout } = await runCli(['trust', project], { env })

    expect(stdout).toContain('Changes for runs:')
    expect(stdout).toContain('  budgets: {"steps":3} → not set')
    expect(stdout).toContain('  require_outcome: true → not set')
  })

  test('says that runs are not affected if only comments changed', async () => {
    const project = await aChangedProject()
    await writeSettings(project, `# why\n${STRICT}`)

    const { stdout } = await runCli(['trust', project], { env })

    expect(stdout).toMatch(/^\+# why\n shell_enabled: false\n redact_pii: true\nNothing changes for runs\.$/m)
  })

  test('accepts that the file was removed', async () => {
    const project = await aChangedProject()
    await rm(join(project, '.agentweaver'), { recursive: true })

    const { status, stdout } = await runCli(['trust', project, '--yes'], { env })

    expect(status).toBe(0)
    expect(stdout).toMatch(
      /\(no such file: the defaults\)\n@@ -1 \+1 @@\n-shell_enabled: false\n-redact_pii: true\n/,
    )
    expect(await inForce(project)).toBeUndefined()
  })

  test('shows hidden characters of the file', async () => {
    const project = await aProject('# safe \u202e\u2066\nshell_enabled: true\r\n')

    const { stdout } = await runCli(['trust', project], { env })

    expect(stdout).toContain('+# safe <U+202E><U+2066>\n+shell_enabled: true<U+000D>\n')
  })

  test('reports file, line and reason if a file cannot be used', async () => {
    const malformed = await aProject('redact_pii: true\nshel_enabled: true\n')
    const linked = await aProject()
    await symlink('/etc/hostname', join(linked, '.agentweaver/settings.yml'))

    const unknownKey = await runCli(['trust', malformed, '--yes'], { env })
    const link = await runCli(['trust', linked, '--yes'], { env })

    expect([unknownKey.status, link.status]).toEqual([2, 2])
    expect(unknownKey.stderr).toContain(
      `${malformed}/.agentweaver/settings.yml, line 2: shel_enabled: is not a known key`,
    )
    expect(link.stderr).toContain(`${linked}/.agentweaver/settings.yml is a symbolic link`)
  })

  test('lists the folders, and forgets one that no longer exists', async () => {
    const project = await aChangedProject()
    await rename(project, `${project}-moved`)

    const listed = await runCli(['trust', '--list', '--limit', '200'], { env })
    const asJson = await runCli(['trust', '--list', '--limit', '1', '--json'], { env })
    const removed = await runCli(['trust', '--remove', project], { env })
    const again = await runCli(['trust', '--remove', project], { env })

    expect(listed.stdout).toMatch(new RegExp(`file +trust +.*${project}\n`))
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      items: [{ path: project, settings: 'file', origin: 'trust' }],
    })
    expect(removed).toMatchObject({ status: 0, stdout: `${project}  forgotten\n` })
    expect(again.status).toBe(3)
    expect((await runCli(['trust', '--list', '--limit', '200'], { env })).stdout).not.toContain(
      `${project}\n`,
    )
  })

  test.each([
    [['--list', '--remove']],
    [['--list', '.']],
    [['--list', '--yes']],
    [['--remove', '--yes']],
    [['--after', 'x']],
    [['/nowhere/at/all']],
  ])('rejects %j', async (argv) => {
    const { status } = await runCli(['trust', ...argv], { env, cwd: folder })

    expect(status).toBe(2)
  })
})

describe('a run', () => {
  const run = (project: string, ...more: string[]) =>
    runCli(['run', 'a task', '-w', project, '--plan', plan, ...more], { env })

  test('announces the first run in a folder', async () => {
    const withFile = await aProject(STRICT)
    const without = await aProject()

    const first = await run(withFile)
    const second = await run(withFile)
    const defaults = await run(without)

    expect(unwrapped(first.stdout)).toContain(
      `settings First run in ${withFile}: its settings file is in force from now on.`,
    )
    expect(second.stdout).not.toContain('settings')
    expect(unwrapped(defaults.stdout)).toContain(
      `First run in ${without}, which has no settings file: the defaults are in force from now on.`,
    )
  })

  test('reports ignored settings, with the command that accepts them', async () => {
    const project = await aChangedProject("a project of 'mine'")
    const accept = `agentweaver trust '${folder}/a project of '\\''mine'\\'''`

    const { stdout } = await run(project)

    expect(unwrapped(stdout)).toContain(`${project}/.agentweaver/settings.yml is ignored: it differs from`)
    expect(unwrapped(stdout)).toContain(`${accept} `)
  })

  test('includes the URL of the service in that command', async () => {
    const path = await aChangedProject()
    const { id } = await client.createSandbox({ workspace: { kind: 'path', path } })
    await until('the sandbox has its settings', async () =>
      ['running', 'waiting'].includes((await client.readSandbox(id)).state),
    )

    const { stdout } = await runCli(['logs', id, '--url', service.url], {
      env: { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey },
    })
    await client.destroySandbox(id)

    expect(unwrapped(stdout)).toContain(`agentweaver trust ${path} --url ${service.url}`)
  })

  test('reports ignored settings with --detach too', async () => {
    const project = await aChangedProject()

    const detached = await run(project, '--detach')
    const sandbox = await runCli(['sandbox', 'create', '-w', project, '--json'], { env })
    await runCli(['sandbox', 'rm', JSON.parse(sandbox.stdout).id], { env })

    expect(detached.stdout).toMatch(/^run_[0-9a-f]{32}\n$/)
    for (const { stderr } of [detached, sandbox]) {
      expect(unwrapped(stderr)).toContain('settings.yml is ignored')
      expect(unwrapped(stderr)).toContain(`agentweaver trust ${project}`)
    }
  })

  test('is refused if the settings file cannot be read, even if older settings are in force', async () => {
    const project = await aChangedProject()
    await writeSettings(project, 'shell_enabled: [')

    const { status, stderr } = await run(project)

    expect(status).toBe(2)
    expect(stderr).toContain(`${project}/.agentweaver/settings.yml, line 1: `)
  })
})

test('a service that is started for each command keeps the settings in force', async () => {
  const home = await mkdtemp(join(tmpdir(), 'aw-trust-home-'))
  const project = join(home, 'project')
  await mkdir(join(project, '.agentweaver'), { recursive: true })
  await writeSettings(project, STRICT)
  const settings = { env: { HOME: home, AGENTWEAVER_PORT: '1' }, cwd: home }

  const first = await runCli(['run', 'a task', '-w', project, '--plan', plan], settings)
  await writeSettings(project, WEAK)
  const second = await runCli(['run', 'a task', '-w', project, '--plan', plan], settings)
  const trusted = await runCli(['trust', project, '--yes'], settings)
  const third = await runCli(['run', 'a task', '-w', project, '--plan', plan], settings)

  expect(first.stdout).toContain('First run in')
  expect(unwrapped(second.stdout)).toContain(`agentweaver trust ${project}`)
  expect(trusted.status).toBe(0)
  expect(third.stdout).not.toContain('settings')
  await untilQuiet(home)
  await rm(home, { recursive: true })
})
