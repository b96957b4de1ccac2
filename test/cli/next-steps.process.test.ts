import { expect, test } from 'vitest'
import { anApproval, done, queued } from './events.ts'
import { aRun, FAKE_KEY, RUN_ID, startFakeService } from './fake-service.ts'
import { runCli } from './run-cli.ts'

const AN_APPROVAL = {
  requestId: 'req-1',
  runId: RUN_ID,
  callId: 'call-1',
  tool: 'run_command',
  expiresAt: new Date().toISOString(),
} as const

const COMMAND = `agentweaver approve ${RUN_ID} req-1`

async function aService() {
  const service = await startFakeService()
  return { service, env: { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: FAKE_KEY } }
}

test('logs -f prints no commands for a request that was decided before', async () => {
  const { service: fake, env } = await aService()
  await using service = fake
  service.approvals = [{ ...AN_APPROVAL, state: 'denied' }]
  service.publish(queued, anApproval(), done('succeeded'))

  const { status, stderr } = await runCli(['logs', '-f', RUN_ID], { env })

  expect(status).toBe(0)
  expect(stderr).not.toContain(COMMAND)
})

test.for([
  ['apply', 'in-place', ['apply', RUN_ID], 'Its changes are in the folder already.'],
  ['apply', 'isolated', ['apply', RUN_ID], `Get its changes with "agentweaver fetch ${RUN_ID}".`],
  [
    'cp',
    'in-place',
    ['cp', `${RUN_ID}:a`, 'a'],
    "Its files are in the folder /project of the service's machine.",
  ],
  ['cp', 'isolated', ['cp', `${RUN_ID}:a`, 'a'], `Its commits: agentweaver fetch ${RUN_ID}.`],
] as const)(
  '%s names no command that fails for an ended run on a folder (%s)',
  async ([_name, mode, words, hint]) => {
    const { service: fake, env } = await aService()
    await using service = fake
    const run = aRun({ state: 'succeeded', workspace: { kind: 'path', path: '/project', mode } })
    service.answer = ({ path }) => (path === `/api/runs/${RUN_ID}` ? { body: run } : undefined)

    const { stderr } = await runCli(words, { env })

    expect(stderr).toContain(hint)
    expect(stderr).not.toContain('agentweaver pull')
  },
)

test('exec explains how to pass an option to the command', async () => {
  const { status, stderr } = await runCli(['exec', RUN_ID, 'ls', '-l'])

  expect(status).toBe(2)
  expect(stderr).toContain('write "--" before the command: exec RUN -- ls -l')
})

test('turn prints how to decide a request that the run waits for', async () => {
  const { service: fake, env } = await aService()
  await using service = fake
  service.approvals = [{ ...AN_APPROVAL, state: 'pending' }]
  service.publish(queued, anApproval())
  const waiting = { for: 'approval', since: new Date().toISOString() } as const
  const run = aRun({ state: 'waiting', waiting, interactive: true, lastSequence: 2 })
  service.answer = ({ method, path }) => {
    if (path === `/api/runs/${RUN_ID}`) return { body: run }
    if (method !== 'POST' || path !== `/api/runs/${RUN_ID}/turns`) return undefined
    service.publish(done('succeeded'))
    return { status: 202, body: { id: 'turn_1', runId: RUN_ID, state: 'queued' } }
  }

  const { status, stderr } = await runCli(['turn', RUN_ID, 'go on', '--final'], { env })

  expect(status, stderr).toBe(0)
  expect(stderr).toContain(COMMAND)
})
