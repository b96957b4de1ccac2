import { execFileSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { chmod, cp, mkdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readClientConfig } from '../../cli/service/client-config.ts'
import { findStateFolder } from '../../cli/service/state-folder.ts'
import { ensureFirstApiKey } from '../../runtime/api/start/first-api-key.ts'
import { removeServiceFile, writeServiceFile } from '../../runtime/api/start/service-file.ts'
import { prepareStateFolder } from '../../runtime/api/start/state-folder.ts'
import { FAKE_KEY, startFakeService } from './fake-service.ts'
import { aFolder, runCli } from './run-cli.ts'

/** This user's home, where the key of the seals is. */
const HOME = mkdtempSync(join(tmpdir(), 'aw-home-test-'))
afterAll(() => rm(HOME, { recursive: true }))
const URL_OF_OURS = 'http://127.0.0.1:45678'
const now = () => new Date()

/** A project with a state folder that a service made and that names this process as the service. */
async function aProject(): Promise<{ project: string; state: string }> {
  const project = await aFolder('aw-trust-test-')
  const state = join(project, '.agentweaver')
  await prepareStateFolder(state, HOME)
  const store = {
    countApiKeys: async () => 0,
    insertApiKey: async () => undefined,
    readApiKey: async () => undefined,
  }
  await ensureFirstApiKey(store, { stateDir: state, now })
  await writeServiceFile(state, { url: URL_OF_OURS, pid: process.pid })
  return { project, state }
}

const find = (project: string) => findStateFolder(project, HOME)
const whyIgnored = (project: string) => {
  const { folder, ignored } = find(project)
  expect(folder).toBeUndefined()
  return ignored.map(({ reason }) => reason).join()
}

test('the folder of a running service gives its key and its address, to its owner alone', async () => {
  const { project, state } = await aProject()

  expect(find(join(project, 'deep', 'er')).folder).toMatchObject({ path: state, serviceUrl: URL_OF_OURS })
  expect((await stat(join(state, 'service.json'))).mode & 0o777).toBe(0o600)
  expect(readClientConfig({}, { env: { HOME: HOME }, cwd: project })).toMatchObject({
    url: { value: URL_OF_OURS, from: join(state, 'service.json') },
    apiKey: { from: join(state, 'api-key') },
  })
})

test('a folder that a command in a sandbox made, knowing its numbers, is not believed', async () => {
  const { project, state } = await aProject()
  await rm(state, { recursive: true })
  const attackersHome = await aFolder('aw-attacker-test-')

  await prepareStateFolder(state, attackersHome)
  await writeFile(join(state, 'api-key'), FAKE_KEY, { mode: 0o600 })

  expect(whyIgnored(project)).toContain('no service made it here')
})

test.each([
  ['can be used by others', (state: string) => chmod(state, 0o750)],
  ['api-key in it can be used by others', (state: string) => chmod(join(state, 'api-key'), 0o640)],
  ['service.json in it can be used by others', (state: string) => chmod(join(state, 'service.json'), 0o602)],
  ['not a file of a service', (state: string) => writeFile(join(state, 'api-key'), 'k'.repeat(5000))],
  [
    'no service made it here',
    async (state: string) => {
      await rename(state, `${state}-real`)
      await cp(`${state}-real`, state, { recursive: true })
      await chmod(state, 0o700)
    },
  ],
  [
    'it is not a folder',
    async (state: string) => {
      await rename(state, `${state}-real`)
      await symlink(`${state}-real`, state)
    },
  ],
  [
    'cannot be read (ELOOP)',
    async (state: string) => {
      await rename(join(state, 'api-key'), join(state, 'real'))
      await symlink('real', join(state, 'api-key'))
    },
  ],
  [
    'not a file of a service',
    async (state: string) => {
      await rm(join(state, 'api-key'))
      execFileSync('mkfifo', ['-m', '600', join(state, 'api-key')])
    },
  ],
])('a folder that somebody else may have brought or touched is passed over: %s', async (reason, touch) => {
  const { project, state } = await aProject()
  expect(find(project).folder).toBeDefined()

  await touch(state)

  expect(whyIgnored(project)).toContain(reason)
})

test.runIf(process.getuid?.() === 0)('a folder of another user is passed over', async () => {
  const { project, state } = await aProject()

  execFileSync('chown', ['-R', '65534', state])

  expect(whyIgnored(project)).toBe('it belongs to another user')
})

test('a folder that is not believed hides none above it', async () => {
  const { project, state } = await aProject()
  const inner = join(project, 'inner')
  await mkdir(inner)
  await cp(state, join(inner, '.agentweaver'), { recursive: true })

  const { folder, ignored } = find(inner)

  expect(folder?.path).toBe(state)
  expect(ignored.map(({ path }) => path)).toEqual([join(inner, '.agentweaver')])
})

test.each([
  ['another machine', { url: 'http://192.0.2.1:8080', pid: process.pid }],
  ['a name that only looks local', { url: 'http://127.0.0.1.example.org:80', pid: process.pid }],
  ['a user in the address', { url: 'http://127.0.0.1@192.0.2.1/', pid: process.pid }],
  ['a process that is gone', { url: URL_OF_OURS, pid: 2 ** 30 }],
])('an address is not followed to %s', async (_where, service) => {
  const { project, state } = await aProject()

  await writeServiceFile(state, service)

  expect(find(project).folder).toMatchObject({ path: state, serviceUrl: undefined })
})

test('a key that was given goes to no address that only a folder names', async () => {
  const { project } = await aProject()
  const read = (env: Record<string, string>, apiKey?: string) =>
    readClientConfig(apiKey === undefined ? {} : { apiKey }, { env: { HOME: HOME, ...env }, cwd: project })

  expect(read({}).url.value).toBe(URL_OF_OURS)
  expect(read({ AGENTWEAVER_API_KEY: 'awk_mine' }).url.value).toBe('http://127.0.0.1:8080')
  expect(read({}, 'awk_mine').url.value).toBe('http://127.0.0.1:8080')
})

test('the address is gone once the service has stopped', async () => {
  const { project, state } = await aProject()

  await removeServiceFile(state)

  expect(find(project).folder).toMatchObject({ path: state, serviceUrl: undefined })
})

test('a folder that a project brought is not used by any command, and each says so', async () => {
  await using service = await startFakeService()
  const folder = await aFolder('aw-brought-test-')
  const state = join(folder, '.agentweaver')
  await mkdir(state, { mode: 0o700 })
  await writeFile(join(state, 'api-key'), `${FAKE_KEY}\n`, { mode: 0o600 })
  await writeServiceFile(state, { url: service.url, pid: process.pid })

  const runs = await runCli(['runs', '--url', service.url], { cwd: folder })
  const config = await runCli(['config', '--json'], { cwd: folder })

  expect(runs.status).toBe(4)
  expect(runs.stderr).toContain(`${state} is not used: no service made it here`)
  expect(service.requests).toEqual([])
  expect(JSON.parse(config.stdout).ignored).toEqual([
    { path: state, reason: expect.stringContaining('no service made it here') },
  ])
})

test('a given key gets no second service beside the one of the folder, but its address to name', async () => {
  const { project } = await aProject()
  const settings = { cwd: project, env: { HOME: HOME, AGENTWEAVER_PORT: '1' } }

  const { status, stderr } = await runCli(['runs'], settings)

  expect(status).toBe(5)
  expect(stderr).toContain(`--url ${URL_OF_OURS}`)
})
