import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Diagnostics } from '../../contracts/diagnostics.ts'
import { until } from '../helpers/until.ts'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, startCli } from './run-cli.ts'

let folder: string
let service: OwnService
let env: Record<string, string>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-top-'))
  service = await startOwnService(folder, { AGENTWEAVER_LOCAL_WARM: '1' })
  env = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey }
})
afterAll(async () => {
  await service.stop()
  await rm(folder, { recursive: true, force: true })
})

const command = 'mkdir -p build && rm -rf build'
const plan = { turns: [[{ kind: 'tool', tool: 'run_command', arguments: { command } }]] }

/** A run that waits for an approval. */
async function aWaitingRun(): Promise<string> {
  const { id } = await service.client.startRun({
    task: 'wait',
    workspace: { kind: 'empty' },
    agent: { kind: 'scripted', plan } as never,
  })
  await until('the run waits', async () => (await service.client.readRun(id)).waiting?.for === 'approval')
  return id
}

test('shows the state of the service, and the run that waits for a person', async () => {
  const id = await aWaitingRun()

  const { status, stdout } = await runCli(['top'], { env })

  expect(status).toBe(0)
  expect(stdout).toMatch(/^store {6}sqlite, usable, a write takes [\d.]+ ms$/m)
  expect(stdout).toMatch(/^sandboxes {2}this machine: .*1 in use$/m)
  expect(stdout).toMatch(/^requests {3}1 shell, the oldest \d+ s ago$/m)
  expect(stdout).toMatch(new RegExp(`^${id} {2}an approval {2}\\d+ s +local$`, 'm'))
  expect(stdout).not.toContain('\u001b')
  await service.client.cancel(id)
})

test('prints the diagnostics as JSON', async () => {
  const { status, stdout } = await runCli(['top', '--json'], { env })

  expect(status).toBe(0)
  const { replicas, store, work } = Diagnostics.parse(JSON.parse(stdout))
  expect(store).toMatchObject({ engine: 'sqlite', usable: true })
  expect(replicas).toEqual([expect.objectContaining({ isAlive: true, isThis: true, version: '0.1.0' })])
  expect(work?.overdue).toEqual({
    approval_expiry: 0,
    sandbox_release: 0,
    queue_deadline: 0,
    run_takeover: 0,
  })
})

test('repeats with --watch until it is interrupted', async () => {
  const cli = startCli(['top', '--json', '--watch', '2'], { env })
  let pages = ''
  cli.stdout.on('data', (chunk) => {
    pages += chunk
  })
  await until('two pages are there', () => pages.split('\n').length > 2)

  cli.kill('SIGINT')

  expect(await once(cli, 'exit')).toEqual([0, null])
})

test('refuses to refresh more often than every two seconds', async () => {
  const { status, stderr } = await runCli(['top', '--watch', '0.5'], { env })

  expect(status).toBe(2)
  expect(stderr).toContain('--watch')
})

test('is for operators and auditors', async () => {
  const of = async (role: 'user' | 'auditor') => {
    const { key } = await service.client.createApiKey({ owner: role, role, name: role })
    return runCli(['top'], { env: { ...env, AGENTWEAVER_API_KEY: key } })
  }

  const [user, auditor] = [await of('user'), await of('auditor')]

  expect(user.status).toBe(6)
  expect(user.stderr).toContain('Operators and auditors read the diagnostics')
  expect(auditor.status).toBe(0)
})
