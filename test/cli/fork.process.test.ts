import { describe, expect, test } from 'vitest'
import { done, queued } from './events.ts'
import { aRun, FAKE_KEY, type FakeService, RUN_ID, refusal, startFakeService } from './fake-service.ts'
import { runCli } from './run-cli.ts'

const loginTo = ({ url }: FakeService) => ({ AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: FAKE_KEY })

const SOURCE = `run_${'a'.repeat(32)}`
const COPIED = {
  runId: SOURCE,
  checkpointAt: '2026-01-01T10:00:00.000Z',
  copied: ['workspace' as const, 'session' as const],
}

const posted = ({ requests }: FakeService) => requests.findLast(({ method }) => method === 'POST')

test.each(['fork', 'suspend', 'resume'])(
  '"%s" has a help text with an example and accepts --json',
  async (name) => {
    const { status, stdout } = await runCli([name, '--help'])

    expect(status).toBe(0)
    expect(stdout).toContain(`Usage: agentweaver ${name}`)
    expect(stdout).toContain('--json')
    expect(stdout).toMatch(/Example:\n {2}\S/)
  },
)

describe('fork', () => {
  test('starts a run from another one and follows it', async () => {
    await using service = await startFakeService()
    service.answer = ({ path }) =>
      path === `/api/runs/${SOURCE}/fork` ? { status: 202, body: aRun({ state: 'queued' }) } : undefined
    service.publish({ type: 'run.queued', data: { task: 'go on', source: COPIED } }, done('succeeded'))

    const { status, stdout } = await runCli(
      ['fork', SOURCE, 'go on', '--label', 'try=2', '--budget', 'steps=9', '--allow-no-outcome'],
      { env: loginTo(service) },
    )

    expect(status).toBe(0)
    expect(posted(service)).toMatchObject({
      path: `/api/runs/${SOURCE}/fork`,
      body: {
        task: 'go on',
        interactive: false,
        labels: { try: '2' },
        budgets: { steps: 9 },
        requireOutcome: false,
      },
    })
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      `the files and the conversation of ${SOURCE}, checkpoint of 2026-01-01T10:00:00.000Z`,
    )
  })

  test('prints the id with --detach, and sends the repository of --git', async () => {
    await using service = await startFakeService()
    service.answer = ({ path }) =>
      path.endsWith('/fork') ? { status: 202, body: aRun({ state: 'queued' }) } : undefined
    const url = 'https://git.example.com/team/app'

    const { stdout } = await runCli(
      ['fork', SOURCE, 'go on', '-d', '--json', '--git', url, '--ref', 'main', '--depth', '1'],
      { env: loginTo(service) },
    )

    expect(JSON.parse(stdout)).toEqual({ id: RUN_ID })
    expect(posted(service)?.body).toMatchObject({ workspace: { kind: 'git', url, ref: 'main', depth: 1 } })
  })

  test.each([
    ['two sources', ['-w', '.', '--git', 'https://git.example.com/a/b'], 'Give either --workspace or --git'],
    ['options of a repository without one', ['--ref', 'main'], 'give it with --git URL'],
    ['options of an upload without a folder', ['--no-git'], 'are for a folder that is uploaded'],
    ['work in the folder of another machine', ['-w', '.', '--in-place'], 'works only with your own service'],
  ])('rejects %s', async (_what, more, message) => {
    await using service = await startFakeService()

    const { status, stderr } = await runCli(['fork', SOURCE, 'go on', ...more], { env: loginTo(service) })

    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(message) })
    expect(posted(service)).toBeUndefined()
  })

  test('rejects --in-place without a folder', async () => {
    const { status, stderr } = await runCli(['fork', SOURCE, 'go on', '--in-place'])

    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining('--workspace DIR') })
  })

  test('prints the reason of the service and the next step', async () => {
    await using service = await startFakeService()
    const why = `${SOURCE} is running and has no checkpoint yet. Follow it.`
    service.answer = ({ path }) => (path.endsWith('/fork') ? refusal('run_not_ready', why) : undefined)

    const { status, stderr } = await runCli(['fork', SOURCE, 'go on'], { env: loginTo(service) })

    expect(status).toBe(6)
    expect(stderr).toContain('has no checkpoint yet')
  })
})

describe('--from', () => {
  test('of run takes the files of a run', async () => {
    await using service = await startFakeService()
    service.publish(queued, done('succeeded'))

    await runCli(['run', 'review it', '--from', SOURCE], { env: loginTo(service) })

    expect(posted(service)?.body).toMatchObject({ workspace: { kind: 'run', runId: SOURCE } })
  })

  test.each([
    ['run', 'x', '--from', SOURCE, '-w', '.'],
    ['run', 'x', '--from', SOURCE, '--empty-workspace'],
    ['sandbox', 'create', '--from', SOURCE, '-w', '.'],
  ])('is rejected beside another workspace: %s %s %s %s %s', async (...argv) => {
    const { status, stderr } = await runCli(argv)

    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(/only one|not both/) })
  })

  test('of sandbox create takes the files of a run', async () => {
    await using service = await startFakeService()
    const sandbox = aRun({ id: `sbx_${'0'.repeat(32)}`, kind: 'command', state: 'waiting' })
    service.answer = ({ path }) =>
      path.startsWith('/api/sandboxes') ? { status: 202, body: sandbox } : undefined

    await runCli(['sandbox', 'create', '--from', SOURCE], { env: loginTo(service) })

    expect(posted(service)?.body).toMatchObject({ workspace: { kind: 'run', runId: SOURCE } })
  })
})
