import { expect, test } from 'vitest'
import type { Approval, Run } from '../../contracts/api.ts'
import { aRun, FAKE_KEY, type FakeService, RUN_ID, startFakeService } from './fake-service.ts'
import { runCli } from './run-cli.ts'

const loginTo = ({ url }: FakeService) => ({ AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: FAKE_KEY })

const SINCE = '2026-01-01T10:00:00.000Z'

const anApproval = (change: Partial<Approval> = {}): Approval => ({
  requestId: 'req-1',
  runId: RUN_ID,
  callId: 'call-1',
  tool: 'run_command',
  commandHash: '0123456789abcdef',
  state: 'pending',
  expiresAt: '2026-01-08T10:00:00.000Z',
  ...change,
})

/** A service with one run. */
async function having(run: Partial<Run>, approvals: Approval[] = []) {
  const service = await startFakeService()
  service.approvals = approvals
  const shown = aRun(run)
  service.answer = ({ method, path }) => {
    if (method === 'GET' && path === `/api/runs/${RUN_ID}`) return { body: shown }
    return method === 'GET' && path === '/api/runs' ? { body: { items: [shown] } } : undefined
  }
  return service
}

const question = { tool: 'ask_question', commandHash: undefined }

const WAITS: [string, Partial<Run>, Approval[], string[]][] = [
  [
    'an approval',
    { state: 'suspended', waiting: { for: 'approval', since: SINCE } },
    [anApproval(), anApproval({ requestId: 'req-0', state: 'denied' })],
    [`agentweaver approve ${RUN_ID} req-1`, `agentweaver deny ${RUN_ID} req-1`],
  ],
  [
    'an answer',
    { state: 'waiting', waiting: { for: 'question', since: SINCE } },
    [anApproval(question)],
    [`agentweaver answer ${RUN_ID} req-1 TEXT`],
  ],
  [
    'the next turn',
    { state: 'suspended', waiting: { for: 'turn', since: SINCE } },
    [],
    [`agentweaver turn ${RUN_ID} TEXT`],
  ],
  [
    'a person who continues it',
    { state: 'suspended', waiting: { for: 'resume', since: SINCE } },
    [],
    [`agentweaver resume ${RUN_ID}`],
  ],
]

test.each(WAITS)(
  'show and runs tell that a run waits for %s, since when, and what continues it',
  async (...row) => {
    const [what, run, approvals, commands] = row
    await using service = await having(run, approvals)
    const env = loginTo(service)

    const shown = await runCli(['show', RUN_ID], { env })
    const listed = await runCli(['runs'], { env })
    const shownJson = JSON.parse((await runCli(['show', RUN_ID, '--json'], { env })).stdout)
    const listedJson = JSON.parse((await runCli(['runs', '--json'], { env })).stdout)

    expect(shown.stdout).toMatch(new RegExp(`waits for +${what}, since ${SINCE}`))
    expect(shown.stdout.split('\n').map((line) => line.trim())).toEqual(expect.arrayContaining(commands))
    expect(shown.stdout, 'a decided request is not offered').not.toContain('req-0')
    expect(listed.stdout).toMatch(new RegExp(`WAITS FOR.*\\n.*${what}, \\d+ d`))
    expect(listed.stderr).toMatch(new RegExp(`${RUN_ID} waits for ${what}, for \\d+ d: ${commands[0]}`))
    expect(shownJson).toMatchObject({ waiting: run.waiting, continueWith: commands })
    expect(listedJson.items).toMatchObject([{ waiting: run.waiting, continueWith: commands }])
  },
)

test('the commands name the service that was asked', async () => {
  const [, run, approvals] = WAITS[0] ?? []
  await using service = await having(run ?? {}, approvals)

  const { stdout } = await runCli(['show', RUN_ID, '--json', '--url', service.url], { env: loginTo(service) })

  expect(JSON.parse(stdout).continueWith[0]).toBe(`agentweaver approve ${RUN_ID} req-1 --url ${service.url}`)
})

test('shows that a run waits for its upload', async () => {
  await using service = await having({ state: 'waiting_upload', workspace: { kind: 'upload' } })

  const { stdout } = await runCli(['show', RUN_ID], { env: loginTo(service) })

  expect(stdout).toContain('the upload of its workspace, since 2026-01-01T00:00:00.000Z')
})
