import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { FINAL_STATES } from '../../contracts/api.ts'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'
import { startOwnService } from './own-service.ts'
import { runCli, startCli, until, untilQuiet } from './run-cli.ts'

/** A real service whose model server answers by the name of the model. */
async function aService(answers: Readonly<Record<string, ModelReply>>) {
  const model = await startModelServer({ respond: ({ model: name }) => answers[name] ?? { text: 'ready' } })
  const folder = await mkdtemp(join(tmpdir(), 'aw-cli-doctor-'))
  const { url, apiKey, client, stop } = await startOwnService(folder, {
    OPENAI_BASE_URL: model.url,
    AGENTWEAVER_OPENAI_MODELS: Object.keys(answers).join(','),
  })
  onTestFinished(async () => {
    await stop()
    await model.close()
    await untilQuiet(folder)
    await rm(folder, { recursive: true })
  })
  const states = async () => (await client.listRuns()).items.map(({ state }) => state)
  const env = { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: apiKey }
  return { model, env, states }
}

test('doctor --cluster starts a sandbox and asks each usable model, and says why others are not asked', async () => {
  const { env, states } = await aService({
    'big-model': { text: 'ready' },
    'small-model': { text: 'Ready!' },
  })

  const { status, stdout } = await runCli(['doctor', '--cluster', '--json'], { env })

  const { ok, findings, models } = JSON.parse(stdout)
  expect(status, stdout).toBe(0)
  expect(ok).toBe(true)
  expect(models).toMatchObject([
    { kind: 'scripted', ok: true, detail: 'answered "ready"' },
    { kind: 'openaiCompatible', model: 'big-model', ok: true, detail: 'answered "ready"' },
    { kind: 'openaiCompatible', model: 'small-model', ok: true, detail: 'answered "Ready!"' },
  ])
  expect(models.every(({ seconds }: { seconds: number }) => seconds > 0)).toBe(true)
  expect(findings).toContainEqual({
    about: 'sign-in',
    state: 'ok',
    detail: expect.stringContaining('role operator'),
  })
  expect(findings).toContainEqual({
    about: 'model',
    state: 'missing',
    detail: expect.stringMatching(/^copilot: .*COPILOT_GITHUB_TOKEN/),
  })
  expect(await states()).toEqual(['succeeded', 'succeeded', 'succeeded'])
})

const areFinal = (states: readonly string[]) =>
  states.every((state) => FINAL_STATES.some((final) => final === state))

test('doctor --cluster fails for a model whose server refuses the key', async () => {
  const { env, states } = await aService({ locked: { status: 401, body: { error: { message: 'no' } } } })

  const { status, stdout } = await runCli(['doctor', '--cluster'], { env })

  expect(status).toBe(1)
  const shown = stdout.replaceAll(/\s+/g, ' ')
  expect(shown).toMatch(/fault openai locked, [\d.]+ s: .*check the API key/)
  expect(shown).toMatch(/change it: agentweaver show run_[0-9a-f]{32}/)
  expect((await states()).toSorted()).toEqual(['failed', 'succeeded'])
})

test('doctor --cluster ends a run that takes longer than --timeout', async () => {
  const { env, states } = await aService({ silent: { hang: true } })

  const { status, stdout } = await runCli(['doctor', '--cluster', '--timeout', '2', '--json'], { env })

  const { models } = JSON.parse(stdout)
  expect(status).toBe(1)
  expect(models.at(-1)).toMatchObject({
    model: 'silent',
    ok: false,
    detail: expect.stringMatching(/^no answer within 2 s; the run was \w+ and was ended$/),
    remedy: expect.stringMatching(/^agentweaver show run_/),
  })
  expect(areFinal(await states())).toBe(true)
})

test('doctor --cluster ends its run on Ctrl-C and starts no other', async () => {
  const { env, model, states } = await aService({ silent: { hang: true }, other: { text: 'ready' } })
  const child = startCli(['doctor', '--cluster', '--json'], { env })
  const said = text(child.stdout)
  await until('the model is asked', () => model.requests.length > 0)

  child.kill('SIGINT')
  const [status] = await once(child, 'exit')

  expect(status).toBe(130)
  expect(JSON.parse(await said).models.at(-1)).toMatchObject({ model: 'silent', ok: false })
  expect(areFinal(await states())).toBe(true)
  expect(model.requests.map((request) => request.model)).not.toContain('other')
})

test('doctor --cluster reports a key that is not accepted, with the next step, and starts no run', async () => {
  const { env, states } = await aService({ 'big-model': { text: 'ready' } })
  const wrong = { ...env, AGENTWEAVER_API_KEY: `awk_${'0'.repeat(43)}` }

  const { status, stdout } = await runCli(['doctor', '--cluster', '--json'], { env: wrong })

  expect(status).toBe(1)
  expect(JSON.parse(stdout)).toMatchObject({
    ok: false,
    models: [],
    findings: [
      { about: 'service', state: 'ok' },
      { about: 'sign-in', state: 'fault', remedy: expect.stringContaining('agentweaver login') },
    ],
  })
  expect(await states()).toEqual([])
})

test('doctor refuses --timeout without --cluster', async () => {
  const { status, stderr } = await runCli(['doctor', '--timeout', '5'])

  expect(status).toBe(2)
  expect(stderr).toContain('--timeout is for the runs of --cluster')
})
