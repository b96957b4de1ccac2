import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startModelServer } from '../fakes/model-server.ts'
import { startOwnService } from './own-service.ts'
import { runCli, untilQuiet } from './run-cli.ts'

/** A real service with a model server, and the environment of a command that uses it. */
async function aService(settings: Readonly<Record<string, string>> = {}) {
  const model = await startModelServer({
    respond: ({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: 'Done.' }
        : { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] },
  })
  const folder = await mkdtemp(join(tmpdir(), 'aw-cli-models-'))
  const service = await startOwnService(folder, { OPENAI_BASE_URL: model.url, ...settings })
  onTestFinished(async () => {
    await service.stop()
    await model.close()
    await untilQuiet(folder)
    await rm(folder, { recursive: true })
  })
  return { model, env: { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey } }
}

test('models lists what can be started, the default, and what the others need', async () => {
  const { env } = await aService({ AGENTWEAVER_OPENAI_MODELS: 'big-model,small-model' })

  const shown = await runCli(['models'], { env })
  const { stdout } = await runCli(['models', '--json'], { env })

  expect(shown.status).toBe(0)
  expect(shown.stdout).toMatch(/^openai +big-model +usable +default$/m)
  expect(shown.stdout).toMatch(/^openai +small-model +usable$/m)
  expect(shown.stdout).not.toContain('kind openaiCompatible')
  expect(shown.stdout).toMatch(/^copilot +\(any: --model NAME\) +not usable$/m)
  expect(shown.stdout.replaceAll(/\s+/g, ' ')).toContain('start the service with COPILOT_GITHUB_TOKEN')
  expect(JSON.parse(stdout).items).toContainEqual({
    ...{ kind: 'openaiCompatible', model: 'big-model', usable: true, default: true },
  })
})

test('run without --agent uses the default, and the kind of a model that --model names', async () => {
  const { env, model } = await aService({ AGENTWEAVER_OPENAI_MODELS: 'big-model,small-model' })

  const first = await runCli(['run', 'a task', '--empty-workspace'], { env })
  const second = await runCli(['run', 'a task', '--empty-workspace', '--model', 'small-model'], { env })

  expect([first.status, second.status], first.stdout + second.stdout).toEqual([0, 0])
  expect(new Set(model.requests.map((request) => request.model))).toEqual(
    new Set(['big-model', 'small-model']),
  )
})

test('run without --agent names the command that shows why no agent can start', async () => {
  const { env } = await aService({ AGENTWEAVER_AGENT_KINDS: 'scripted' })

  const { status, stderr } = await runCli(['run', 'a task', '--empty-workspace'], { env })

  expect(status).toBe(6)
  expect(stderr).toContain('This service can start no agent with a model.')
  expect(stderr).toContain('agentweaver models')
})
