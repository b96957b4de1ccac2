import { expect, test } from 'vitest'
import { done, queued } from './events.ts'
import { aRun, FAKE_KEY, type FakeService, RUN_ID, startFakeService } from './fake-service.ts'
import { runCli } from './run-cli.ts'

const loginTo = ({ url }: FakeService) => ({ AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: FAKE_KEY })

const RUN = ['run', 'fix it', '--empty-workspace', '--agent', 'copilot']

test('run --budget sends each limit and rejects invalid limits', async () => {
  await using service = await startFakeService()
  service.publish(queued, done('succeeded'))
  const env = loginTo(service)

  await runCli([...RUN, '--budget', 'tokens=200000', '--budget', 'steps=50'], { env })
  const unknown = await runCli([...RUN, '--budget', 'dollars=5'], { env })
  const noNumber = await runCli([...RUN, '--budget', 'tokens=many'], { env })

  expect(service.requests.filter(({ path }) => path === '/api/runs').map(({ body }) => body)).toMatchObject([
    { budgets: { tokens: 200_000, steps: 50 } },
  ])
  expect([unknown.status, noNumber.status]).toEqual([2, 2])
  expect(unknown.stderr).toContain('dollars')
  expect(noNumber.stderr).toContain('kind=number')
})

test('show prints the use of a run with its limits', async () => {
  await using service = await startFakeService()
  const none = { used: 0 }
  const budgets = { steps: { used: 7 }, model_requests: none, tokens: { used: 1500, limit: 2000 } }
  service.answer = ({ path }) =>
    path === `/api/runs/${RUN_ID}`
      ? { body: aRun({ budgets: { ...budgets, event_bytes: none, wall_seconds: none } }) }
      : undefined

  const { stdout } = await runCli(['show', RUN_ID], { env: loginTo(service) })

  expect(stdout).toMatch(/\nused +7 steps, 1,500 of 2,000 tokens \(75 %\)\n/)
})
