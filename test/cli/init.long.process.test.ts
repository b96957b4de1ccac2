import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseRepositorySettings } from '../../policies/agent/settings.ts'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, untilQuiet } from './run-cli.ts'

let folder: string
let service: OwnService
let env: Record<string, string>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-init-test-'))
  const ceiling = join(folder, 'ceiling.yml')
  await writeFile(ceiling, 'network_enabled: true\n')
  service = await startOwnService(folder, {
    AGENTWEAVER_WORKSPACE_ROOTS: folder,
    AGENTWEAVER_CEILING_FILE: ceiling,
  })
  env = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey }
})

afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true })
})

const FILE = '.agentweaver/settings.yml'

async function aProject(files: Readonly<Record<string, string>>): Promise<string> {
  const project = await mkdtemp(join(folder, 'project-'))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(project, name)), { recursive: true })
    await writeFile(join(project, name), text)
  }
  return project
}

const settingsOf = (project: string) => readFile(join(project, FILE), 'utf8')
const init = (project: string, ...more: string[]) => runCli(['init', ...more], { cwd: project })

const PACKAGE = JSON.stringify({ scripts: { test: 'vitest', lint: 'biome', deploy: 'x' } })
const NPM = ['registry.npmjs.org']
const PYPI = ['pypi.org', 'files.pythonhosted.org']

describe('agentweaver init', () => {
  test.each<[string, Record<string, string>, string[], string[] | undefined]>([
    ['an empty folder', {}, [], undefined],
    [
      'npm',
      { 'package.json': PACKAGE, 'package-lock.json': '{}' },
      ['npm ci', 'npm test', 'npm run lint'],
      NPM,
    ],
    ['npm without a lock', { 'package.json': '{}' }, ['npm install'], NPM],
    [
      'pnpm',
      { 'package.json': PACKAGE, 'pnpm-lock.yaml': '' },
      ['pnpm install --frozen-lockfile', 'pnpm test'],
      NPM,
    ],
    [
      'yarn',
      { 'package.json': '{"packageManager":"yarn@4.1.0"}' },
      ['yarn install'],
      ['registry.npmjs.org', 'registry.yarnpkg.com'],
    ],
    ['bun', { 'package.json': PACKAGE, 'bun.lock': '' }, ['bun install', 'bun run lint'], NPM],
    [
      'uv',
      { 'pyproject.toml': '[dependency-groups]\ndev=["pytest"]', 'uv.lock': '' },
      ['uv sync', 'uv run pytest'],
      PYPI,
    ],
    ['poetry', { 'pyproject.toml': '', 'poetry.lock': '' }, ['poetry install'], PYPI],
    [
      'pip',
      { 'requirements.txt': 'flask\n', 'tox.ini': '' },
      ['pip install -r requirements.txt', 'tox'],
      PYPI,
    ],
    ['setup.py', { 'setup.py': '' }, ['pip install -e .', 'python -m unittest'], PYPI],
    ['Go', { 'go.mod': 'module x' }, ['go test ./...'], undefined],
    ['Rust', { 'Cargo.toml': '' }, ['cargo test'], undefined],
    ['Maven', { 'pom.xml': '<project/>', mvnw: '' }, ['./mvnw test'], undefined],
    ['Gradle', { 'build.gradle.kts': '' }, ['gradle test'], undefined],
    ['Ruby', { Gemfile: '', '.rspec': '' }, ['bundle install', 'bundle exec rspec'], undefined],
    ['PHP', { 'composer.json': '{}' }, ['composer install'], undefined],
    ['.NET', { 'a.csproj': '' }, ['dotnet test'], undefined],
    ['make', { Makefile: 'all:\n\ntest: all\n\ttrue\n' }, ['make test'], undefined],
    [
      'several kinds',
      { 'package.json': '{}', 'go.mod': '', 'requirements.txt': '' },
      ['npm install', 'go vet ./...', 'python -m unittest'],
      [...NPM, ...PYPI],
    ],
  ])('writes settings for %s that trust accepts as they are', async (...[, files, commands, hosts]) => {
    const project = await aProject(files)

    const written = await init(project, '--json')
    const text = await settingsOf(project)
    const parsed = parseRepositorySettings(text)
    const before = await service.client.compareSettings({ path: project })
    const trusted = await runCli(['trust', project, '--yes'], { env })
    const after = await service.client.compareSettings({ path: project })

    expect(written).toMatchObject({ status: 0, stderr: '' })
    for (const command of commands) expect(text).toContain(`\n#   ${command}\n`)
    expect(JSON.parse(written.stdout)).toMatchObject({
      path: join(project, FILE),
      commands: expect.arrayContaining(commands),
      egressHosts: hosts ?? [],
    })
    expect(parsed).toMatchObject({ ok: true })
    expect(parsed.ok && parsed.patch.egress_hosts).toEqual(hosts)
    expect(before.file.notGranted).toEqual([])
    expect(trusted.status, trusted.stderr).toBe(0)
    expect(after).toMatchObject({ isSame: true, inForce: { origin: 'trust', text } })
  })

  test('names the hosts that the operator does not list, and takes those that the operator does', async () => {
    const project = await aProject({
      'package.json': '{}',
      '.npmrc': 'registry=https://npm.example.com/\n@team:registry=https://mirror.example.com/npm\n',
    })
    const egress = join(await aProject({}), 'egress.yaml')
    const entry = '{ host: npm.example.com, ports: [443], mode: read-only, why: the mirror of the company }'
    await writeFile(
      egress,
      `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent: [${entry}]\n  command: []\n`,
    )

    const { stdout, stderr } = await init(project, '--egress-file', egress)
    const text = await settingsOf(project)

    expect(stdout).toBe(`${join(project, FILE)}\n`)
    expect(text).toContain('egress_hosts:\n  - npm.example.com\n')
    expect(text).toContain('#   - mirror.example.com\n')
    expect(stderr).toContain('no run can reach them: registry.npmjs.org, mirror.example.com')
    expect(stderr).toContain('agentweaver trust\n')
    expect(stderr).toContain('agentweaver run "fix the failing test" --workspace .')
  })

  test('never replaces a file without --force', async () => {
    const project = await aProject({ [FILE]: 'shell_enabled: false\n', 'go.mod': '' })

    const refused = await init(project)
    const kept = await settingsOf(project)
    const forced = await init(project, '--force')

    expect(refused.status).toBe(6)
    expect(refused.stderr).toContain('exists. Nothing was changed.')
    expect(kept).toBe('shell_enabled: false\n')
    expect(forced.status).toBe(0)
    expect(await settingsOf(project)).toContain('shell_enabled: true')
  })

  test('refuses a missing folder, and prints the next step', async () => {
    const absent = await runCli(['init', 'absent'], { cwd: folder })
    const file = await runCli(['init', 'ceiling.yml'], { cwd: folder })
    const cwd = await aProject({})
    const list = await runCli(['init', '--egress-file', 'absent'], { cwd })
    const own = await runCli(['init'], { cwd, env: { AGENTWEAVER_EGRESS_FILE: 'absent' } })

    expect([absent.status, file.status, list.status, own.status]).toEqual([2, 2, 2, 2])
    expect(absent.stderr).toContain('There is no folder absent')
    expect(list.stderr).toContain('Correct the path after --egress-file')
    expect(own.stderr).toContain('--egress-file PATH')
  })
})

describe('a hostile project', () => {
  const INJECTED = 'x"\nshell_enabled: false\negress_hosts: [evil.example.com]\n#'

  test('cannot write other text into the settings', async () => {
    const project = await aProject({
      'package.json': JSON.stringify({
        scripts: { test: INJECTED, [INJECTED]: 'x' },
        packageManager: INJECTED,
      }),
      '.npmrc': `registry=https://a.example.com\n  evil: true\nregistry=https://b.example.com/\rshell_enabled:false\nregistry=https://[::1]/\nregistry=https://UPPER.example.com:8443/x#y\nregistry=https://user:secret@c.example.com/`,
      Makefile: `test:\ncheck\u2028: ${INJECTED}\n`,
      'pyproject.toml': `url = "https://d.example.com\u0000/"\nurl = "https://*.example.com"\n`,
    })

    const { status, stderr } = await init(project)
    const text = await settingsOf(project)
    const parsed = parseRepositorySettings(text)

    expect(status).toBe(0)
    expect(parsed).toMatchObject({
      ok: true,
      patch: { shell_enabled: true, egress_hosts: [...NPM, ...PYPI] },
    })
    expect(text).not.toMatch(/evil|secret|\r|\0|\u2028|\*\./)
    // Control: plain names of the same file are found.
    expect(text).toMatch(/a\.example\.com\n[\s\S]*upper\.example\.com\n# {3}- c\.example\.com\n/)
    expect(stderr).not.toContain('secret')
  })

  test('cannot make it read or write elsewhere', async () => {
    const outside = await aProject({ 'package.json': PACKAGE, 'settings.yml': 'mine\n' })
    const linked = await aProject({})
    await symlink(join(outside, 'package.json'), join(linked, 'package.json'))
    await symlink(outside, join(linked, '.agentweaver'))
    const fileLinked = await aProject({ '.agentweaver/x': '' })
    await symlink(join(outside, 'settings.yml'), join(fileLinked, FILE))
    const control = await aProject({ 'package.json': PACKAGE })

    const outcomes = await Promise.all([
      init(linked),
      init(linked, '--force'),
      init(fileLinked),
      init(fileLinked, '--force'),
    ])

    for (const { status, stderr } of outcomes) {
      expect(status).toBe(6)
      expect(stderr).toContain('symbolic link')
    }
    expect(await readFile(join(outside, 'settings.yml'), 'utf8')).toBe('mine\n')
    expect((await readdir(outside)).sort()).toEqual(['package.json', 'settings.yml'])
    expect((await init(control)).stderr).toContain('Found: Node.js.')
  })

  test('cannot stop it with a manifest that is huge, malformed or not a file', async () => {
    const project = await aProject({ 'go.mod': '', 'pyproject.toml': `${'x'.repeat(2_000_000)}pytest` })
    await mkdir(join(project, 'Cargo.toml'))
    await writeFile(join(project, 'package.json'), '{"scripts": 7')

    const { status, stderr } = await init(project)

    expect(status).toBe(0)
    expect(stderr).toContain('Found: Node.js, Python, Go.')
    expect(await settingsOf(project)).toContain('#   python -m unittest\n')
  })
})
