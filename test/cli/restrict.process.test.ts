import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import type { Run } from '../../contracts/api.ts'
import { until } from '../helpers/until.ts'
import { done, queued } from './events.ts'
import { aRun, FAKE_KEY, type FakeService, RUN_ID, startFakeService } from './fake-service.ts'
import { runCli, startCli } from './run-cli.ts'

const loginTo = ({ url }: FakeService) => ({ AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: FAKE_KEY })
const SILENT_URL = 'http://127.0.0.1:1'

describe('"agentweaver restrict"', () => {
  const SET = {
    scope: { kind: 'all' },
    level: 'frozen',
    reason: 'incident 42',
    by: 'root',
    role: 'operator',
    at: '2026-01-01T00:00:00.000Z',
  }

  test('restricts all runs, says what that means, and how to lift it', async () => {
    await using service = await startFakeService()
    service.answer = ({ method }) => (method === 'PUT' ? { body: SET } : undefined)

    const { status, stdout, stderr } = await runCli(
      ['restrict', 'frozen', '--all', '--reason', 'incident 42'],
      { env: loginTo(service) },
    )

    expect(status).toBe(0)
    expect(stdout).toContain('all runs  frozen')
    expect(stdout).toContain('Running commands are stopped and continue later.')
    expect(stderr).toContain('agentweaver restrict normal --all --reason TEXT')
    expect(service.requests.find(({ method }) => method === 'PUT')).toMatchObject({
      path: '/api/restrictions',
      body: { scope: { kind: 'all' }, level: 'frozen', reason: 'incident 42' },
    })
  })

  test('is named as the reason why a new run waits', async () => {
    await using service = await startFakeService()
    service.answer = ({ method, path }) =>
      method === 'GET' && path === `/api/runs/${RUN_ID}`
        ? {
            body: aRun({
              state: 'queued',
              queue: { position: 1 },
              restrictions: [SET] as Run['restrictions'],
            }),
          }
        : undefined
    service.publish(queued)
    const child = startCli(['run', 'fix it', '--empty-workspace', '--agent', 'openai'], {
      env: loginTo(service),
    })
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))

    await until('the reason is printed', () => stderr.includes('waits until the restriction is lifted'))
    service.publish(done('succeeded'))
    await once(child, 'exit')

    expect(stderr).toContain('(frozen by root for all runs: incident 42)')
  })

  test('lists the restrictions in force', async () => {
    await using service = await startFakeService()
    service.answer = ({ path }) => (path === '/api/restrictions' ? { body: { items: [SET] } } : undefined)

    const { stdout } = await runCli(['restrict'], { env: loginTo(service) })
    const asJson = await runCli(['restrict', '--json'], { env: loginTo(service) })

    expect(stdout).toMatch(/frozen +all runs +root .* incident 42/)
    expect(JSON.parse(asJson.stdout)).toEqual({ items: [SET] })
  })

  test.each([
    [
      'no such level',
      ['stop', '--all', '--reason', 'r'],
      'The levels are normal, read-only, no-network, frozen.',
    ],
    ['no scope', ['frozen', '--reason', 'r'], 'either the id of a run, --owner NAME or --all'],
    [
      'two scopes',
      ['frozen', RUN_ID, '--all', '--reason', 'r'],
      'either the id of a run, --owner NAME or --all',
    ],
    ['no reason', ['frozen', '--all'], 'Say why, for the audit record: --reason TEXT.'],
    ['a scope without a level', ['--all'], 'Name a level first'],
  ])('is refused with %s', async (_what, words, message) => {
    const { status, stderr } = await runCli(['restrict', ...words], { env: { AGENTWEAVER_URL: SILENT_URL } })

    expect(status).toBe(2)
    expect(stderr).toContain(message)
  })
})

describe('"agentweaver egress allow"', () => {
  const ALLOWED = {
    host: 'registry.npmjs.org',
    reason: 'the build',
    by: 'ada',
    at: '2026-01-01T00:00:00.000Z',
  }
  const words = ['egress', 'allow', 'Registry.npmjs.org.', '--run', RUN_ID, '--reason', 'the build']

  test('allows a host, in the spelling of the list', async () => {
    await using service = await startFakeService()
    service.answer = ({ method }) => (method === 'POST' ? { body: ALLOWED } : undefined)

    const { status, stdout } = await runCli(words, { env: loginTo(service) })
    const asJson = await runCli([...words, '--json'], { env: loginTo(service) })

    expect(status).toBe(0)
    expect(stdout).toContain(`registry.npmjs.org  allowed for ${RUN_ID}`)
    expect(JSON.parse(asJson.stdout)).toEqual(ALLOWED)
    expect(service.requests.find(({ method }) => method === 'POST')).toMatchObject({
      path: `/api/runs/${RUN_ID}/egress/allowed-hosts`,
      body: { host: 'registry.npmjs.org', reason: 'the build' },
    })
  })

  test.each([
    ['no run', ['egress', 'allow', 'a.example.com', '--reason', 'r'], 'Name the run: --run RUN.'],
    ['no reason', ['egress', 'allow', 'a.example.com', '--run', RUN_ID], 'Say why, for the audit record'],
    ['an empty reason', ['egress', 'allow', 'a.example.com', '--run', RUN_ID, '--reason', ' '], 'Say why'],
  ])('is refused with %s', async (_what, given, message) => {
    const { status, stderr } = await runCli(given, { env: { AGENTWEAVER_URL: SILENT_URL } })

    expect(status).toBe(2)
    expect(stderr).toContain(message)
  })
})

test.each([['restrict'], ['egress', 'explain'], ['egress', 'suggest'], ['egress', 'allow']])(
  '"%s %s" has a help text with an example and accepts --json',
  async (...words) => {
    const { status, stdout } = await runCli([...words, '--help'])

    expect(status).toBe(0)
    expect(stdout).toContain('--json')
    expect(stdout).toMatch(/Example:\n {2}\S/)
  },
)
