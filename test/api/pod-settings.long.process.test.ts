import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { aFolder, runCli } from '../cli/run-cli.ts'
import { startService } from './service-process.ts'

const POD = { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' }
const CLUSTER = {
  ...POD,
  AGENTWEAVER_SANDBOXES: 'kubernetes',
  AGENTWEAVER_DEPLOYMENT_ID: 'prod',
  AGENTWEAVER_RUNTIME_CLASS: 'agentweaver-kata',
  AGENTWEAVER_HOST: '127.0.0.1',
  AGENTWEAVER_KEYS_DIR: '/nowhere/keys',
  DATABASE_URL: 'postgresql://api@127.0.0.1:1/agentweaver',
}

/** A service with its own home, started as a person or a kubelet would. */
async function start(env: Readonly<Record<string, string>>) {
  const home = await aFolder('aw-pod-')
  return { home, service: startService({ HOME: home, ...env }, undefined, home) }
}

describe('a service in a pod', () => {
  test('stops without a setting for its sandboxes, names the setting, and creates no file', async () => {
    const { home, service } = await start(POD)

    expect(await service.exited).toBe(78)
    expect(service.stderr()).toMatch(
      /^The configuration has problems:\n {2}AGENTWEAVER_SANDBOXES: is required/,
    )
    expect(service.stdout()).toBe('')
    expect(existsSync(join(home, '.local'))).toBe(false)
  })

  test('control: outside a pod the same service starts with local sandboxes', async () => {
    const { service } = await start({})

    expect((await service.ready).url).toContain('127.0.0.1')
  })

  test('starts with local sandboxes if the setting asks for them', async () => {
    const { service } = await start({ ...POD, AGENTWEAVER_SANDBOXES: 'local' })

    expect((await service.ready).url).toContain('127.0.0.1')
  })

  test.each([
    ['AGENTWEAVER_HOST', /AGENTWEAVER_HOST: is required/],
    ['AGENTWEAVER_STATE_DIR', /AGENTWEAVER_STATE_DIR: is required/],
    ['DATABASE_URL', /DATABASE_URL: is required/],
    ['AGENTWEAVER_KEYS_DIR', /AGENTWEAVER_KEYS_DIR or AGENTWEAVER_KEY_VAULT: is required/],
  ])('with sandboxes in pods, stops without %s', async (key, message) => {
    const stateDir = join(await aFolder('aw-pod-state-'), 'state')
    const { [key]: _left, ...env } = { ...CLUSTER, AGENTWEAVER_STATE_DIR: stateDir } as Record<string, string>

    const { home, service } = await start(env)

    expect(await service.exited).toBe(78)
    expect(service.stderr()).toMatch(message)
    expect(service.stderr().match(/is required/g)).toHaveLength(1)
    expect([existsSync(stateDir), existsSync(join(home, '.local'))]).toEqual([false, false])
  })

  test('control: with all settings it continues until it reads its keys', async () => {
    const { service } = await start({ ...CLUSTER, AGENTWEAVER_STATE_DIR: await aFolder('aw-pod-state-') })

    expect(await service.exited).toBe(78)
    expect(service.stderr()).toContain('AGENTWEAVER_KEYS_DIR: ENOENT')
  })
})

describe('the command line in a pod', () => {
  test('starts no service with laptop defaults, and doctor names the setting', async () => {
    const home = await aFolder('aw-pod-')
    const settings = { env: { HOME: home, ...POD }, cwd: home }

    const run = await runCli(['run', 'x', '--empty-workspace', '--agent', 'copilot'], settings)
    const doctor = await runCli(['doctor'], settings)

    expect(run.status).toBe(5)
    expect(run.stderr).toContain('AGENTWEAVER_SANDBOXES: is required in a pod')
    expect(doctor.status).toBe(1)
    expect(doctor.stdout).toContain('AGENTWEAVER_SANDBOXES: is required in a pod')
  })

  test('plays the demo, which sets local sandboxes itself', async () => {
    const { status } = await runCli(['demo', '--yes'], { env: POD })

    expect(status).toBe(0)
  })
})
