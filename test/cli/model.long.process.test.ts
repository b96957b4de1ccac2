import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'
import { startOwnService } from './own-service.ts'
import { runCli, untilQuiet } from './run-cli.ts'

/** Runs `agentweaver run` against a real service whose model sends these responses. */
async function runWith(answers: readonly ModelReply[]) {
  const model = await startModelServer({ respond: (_request, index) => answers[index] ?? { text: 'Done.' } })
  const folder = await mkdtemp(join(tmpdir(), 'aw-cli-model-'))
  const service = await startOwnService(folder, { OPENAI_BASE_URL: model.url })
  onTestFinished(async () => {
    await service.stop()
    await model.close()
    await untilQuiet(folder)
    await rm(folder, { recursive: true })
  })
  const env = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey }
  const argv = ['run', 'a task', '--empty-workspace', '--agent', 'openai', '--model', 'any-model']
  return { shown: await runCli(argv, { env }), again: () => runCli([...argv, '--json'], { env }) }
}

test('run shows the text of a refusal and fails', async () => {
  const { shown, again } = await runWith([
    { refusal: 'I will not\u001b[2J do that.' },
    { refusal: 'Nor that.' },
  ])

  expect(shown.status).toBe(1)
  expect(shown.stdout).toMatch(/refuses +I will not.*do that\./)
  expect(shown.stdout, 'nothing that steers a terminal').not.toContain('\u001b')
  expect(shown.stdout).toMatch(/turn +failed: The model refused: I will not/)
  expect(shown.stdout).toMatch(/\n +failed +the last turn failed \(agent_failed\)/)
  const { stdout } = await again()
  const events = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).event)
  expect(events).toContainEqual({
    type: 'agent.message',
    data: { messageId: expect.any(String), text: 'Nor that.', refusal: true },
  })
})

test('run shows invalid calls of a model and continues', async () => {
  const { shown } = await runWith([
    {
      toolCalls: [
        { name: 'create', arguments: '{"path": "a' },
        { name: 'frobnicate', arguments: {} },
      ],
    },
    { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] },
  ])

  expect(shown.status).toBe(0)
  expect(shown.stdout).toMatch(/tool +create {2}\(unusable arguments\)/)
  expect(shown.stdout).toMatch(/refused +by policy: .*its arguments are not JSON/)
  expect(shown.stdout).toMatch(/refused +by policy: .*'frobnicate' does not\s+exist/)
  expect(shown.stdout).toContain('Done.')
})
