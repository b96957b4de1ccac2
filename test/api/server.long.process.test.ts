import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { createClient } from '../../runtime/client/client.ts'
import { makeStateDir, startService } from './service-process.ts'

test('the first start creates a store and a key that a client can use', async () => {
  const stateDir = await makeStateDir()
  const service = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  const { url, socket, apiKeyFile, pid } = await service.ready
  expect(pid).toBe(service.child.pid)
  expect((await stat(stateDir)).mode & 0o777).toBe(0o700)
  expect((await stat(apiKeyFile)).mode & 0o777).toBe(0o600)
  const serviceFile = join(stateDir, 'service.json')
  expect((await stat(serviceFile)).mode & 0o777).toBe(0o600)
  expect(JSON.parse(await readFile(serviceFile, 'utf8'))).toEqual({
    url,
    socket,
    pid,
    startedIn: process.cwd(),
  })
  expect(socket).toBe(join(stateDir, 'service.sock'))
  for (const name of await readdir(stateDir)) expect((await stat(join(stateDir, name))).mode & 0o077).toBe(0)
  const client = createClient({ url, apiKey: (await readFile(apiKeyFile, 'utf8')).trim() })
  expect((await client.listRuns()).items).toEqual([])
  expect(await client.ready()).toMatchObject({ ready: true })
  // when
  service.child.kill('SIGTERM')
  // then
  expect(await service.exited).toBe(0)
  expect(existsSync(serviceFile)).toBe(false)
  expect(existsSync(socket)).toBe(false)
})

test('the key of the first start works after a restart', async () => {
  const stateDir = await makeStateDir()
  const first = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  const { apiKeyFile } = await first.ready
  const apiKey = (await readFile(apiKeyFile, 'utf8')).trim()
  first.child.kill('SIGKILL')
  await first.exited
  const { url } = await startService({ AGENTWEAVER_STATE_DIR: stateDir }).ready
  expect((await createClient({ url, apiKey }).listRuns()).items).toEqual([])
})

test('a wrong configuration lists every problem and never listens', async () => {
  const service = startService({
    AGENTWEAVER_STATE_DIR: await makeStateDir(),
    AGENTWEAVER_PROT: '1',
    AGENTWEAVER_ISOLATION: 'chroot',
    AGENTWEAVER_MAX_RUNS: 'many',
  })
  expect(await service.exited).toBe(78)
  for (const key of ['AGENTWEAVER_PROT', 'AGENTWEAVER_ISOLATION', 'AGENTWEAVER_MAX_RUNS']) {
    expect(service.stderr()).toContain(key)
  }
  expect(service.stdout()).toBe('')
})

test('a port in use is reported in one sentence, and the other service keeps running', async () => {
  const first = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir() })
  const { url } = await first.ready
  const { port } = new URL(url)
  // when
  const second = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir(), AGENTWEAVER_PORT: port })
  // then
  expect(await second.exited).toBe(1)
  expect(second.stderr().trim()).toMatch(
    new RegExp(`^Port ${port} of 127.0.0.1 is in use. .*choose another port with AGENTWEAVER_PORT`),
  )
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
})

test('a second service on the same folder is rejected, and one after a crash is not', async () => {
  const stateDir = await makeStateDir()
  const first = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  const { pid, url } = await first.ready
  // when
  const second = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  // then
  expect(await second.exited).toBe(1)
  expect(second.stderr()).toContain(`running already: process ${pid}, started in ${process.cwd()}, at ${url}`)
  expect(second.stderr()).toContain('AGENTWEAVER_STATE_DIR')
  first.child.kill('SIGKILL')
  await first.exited
  await startService({ AGENTWEAVER_STATE_DIR: stateDir }).ready
})

test('the service ends when its lifeline closes', async () => {
  const service = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir(), AGENTWEAVER_LIFELINE: 'true' })
  await service.ready
  service.child.stdin?.end()
  expect(await service.exited).toBe(0)
})

test('without a lifeline, the end of stdin has no effect', async () => {
  const service = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir() })
  const { url } = await service.ready
  service.child.stdin?.end()
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  expect(service.child.exitCode).toBeNull()
})

test.each([
  ['AGENTWEAVER_TOOL_ROOTS', 'share'],
  ['AGENTWEAVER_TOOL_ROOTS', 'share/state/keys'],
  ['AGENTWEAVER_TOOL_ROOTS', 'link'],
  ['AGENTWEAVER_CEILING_FILE', 'share'],
])('does not start if %s would show keys to commands: %s', async (setting, folder) => {
  const home = dirname(await makeStateDir())
  const stateDir = join(home, 'share/state')
  await mkdir(join(home, 'share/bin'), { recursive: true })
  await symlink(join(home, 'share'), join(home, 'link'))
  const valueFor = async (path: string) => {
    if (setting !== 'AGENTWEAVER_CEILING_FILE') return path
    const file = join(home, 'ceiling.yml')
    await writeFile(file, `allowed_repository_roots: [${path}]\n`)
    return file
  }
  const start = async (path: string) =>
    startService({ HOME: home, AGENTWEAVER_STATE_DIR: stateDir, [setting]: await valueFor(join(home, path)) })

  const sound = await start('share/bin')
  await sound.ready
  sound.child.kill('SIGTERM')
  await sound.exited
  const service = await start(folder)

  expect(await service.exited).toBe(78)
  expect(service.stderr()).toContain(setting)
  expect(service.stderr()).toContain('a folder for keys of the service')
})
