import { readFile, stat } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { createClient } from '../../runtime/client/client.ts'
import { makeStateDir, startService } from './service-process.ts'

test('the first start makes a store and a key, and a client can use it', async () => {
  const stateDir = await makeStateDir()
  const service = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  const { url, apiKeyFile, pid } = await service.ready
  expect(pid).toBe(service.child.pid)
  expect((await stat(stateDir)).mode & 0o777).toBe(0o700)
  expect((await stat(apiKeyFile)).mode & 0o777).toBe(0o600)
  const client = createClient({ url, apiKey: (await readFile(apiKeyFile, 'utf8')).trim() })
  expect((await client.listRuns()).items).toEqual([])
  expect(await client.ready()).toMatchObject({ ready: true })
  // when
  service.child.kill('SIGTERM')
  // then
  expect(await service.exited).toBe(0)
})

test('the key of the first start opens the second one too', async () => {
  const stateDir = await makeStateDir()
  const first = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  const { apiKeyFile } = await first.ready
  const apiKey = (await readFile(apiKeyFile, 'utf8')).trim()
  first.child.kill('SIGKILL')
  await first.exited
  const { url } = await startService({ AGENTWEAVER_STATE_DIR: stateDir }).ready
  expect((await createClient({ url, apiKey }).listRuns()).items).toEqual([])
})

test('a bad configuration names every problem and never listens', async () => {
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

test('a port in use is one clear sentence, and the service that has it goes on', async () => {
  const first = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir() })
  const { url } = await first.ready
  const { port } = new URL(url)
  // when
  const second = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir(), AGENTWEAVER_PORT: port })
  // then
  expect(await second.exited).toBe(1)
  expect(second.stderr().trim()).toBe(
    `Port ${port} of 127.0.0.1 is in use: stop what listens there, or choose another port with AGENTWEAVER_PORT.`,
  )
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
})

test('a second service on the same folder is refused, and one after a crash is not', async () => {
  const stateDir = await makeStateDir()
  const first = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  await first.ready
  // when
  const second = startService({ AGENTWEAVER_STATE_DIR: stateDir })
  // then
  expect(await second.exited).toBe(1)
  expect(second.stderr().trim()).toBe(
    `Another service works with ${stateDir}: stop it, or give this one a folder of its own with AGENTWEAVER_STATE_DIR.`,
  )
  first.child.kill('SIGKILL')
  await first.exited
  await startService({ AGENTWEAVER_STATE_DIR: stateDir }).ready
})

test('the service ends with whoever holds its lifeline', async () => {
  const service = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir(), AGENTWEAVER_LIFELINE: 'true' })
  await service.ready
  service.child.stdin?.end()
  expect(await service.exited).toBe(0)
})

test('without a lifeline the end of its input means nothing', async () => {
  const service = startService({ AGENTWEAVER_STATE_DIR: await makeStateDir() })
  const { url } = await service.ready
  service.child.stdin?.end()
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  expect(service.child.exitCode).toBeNull()
})
