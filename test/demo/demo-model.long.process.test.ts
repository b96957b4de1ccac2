import { expect, onTestFinished, test } from 'vitest'
import { runCli } from '../cli/run-cli.ts'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'

const FIX = { path: 'src/price.js', old_str: 'grams < maxGrams', new_str: 'grams <= maxGrams' }
const RUN_TESTS = { toolCalls: [{ name: 'run_command', arguments: { command: 'node --test' } }] }

const asModel = async (replies: readonly ModelReply[]) => {
  const model = await startModelServer({ respond: (_request, index) => replies[index] ?? { text: 'Done.' } })
  onTestFinished(() => model.close())
  return runCli(['demo', '--model', 'any-model'], {
    env: { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'sk-demo-key' },
  })
}

test('passes with a model that repairs the project', async () => {
  const repair = { toolCalls: [{ name: 'str_replace_editor', arguments: FIX }] }

  const intent = { toolCalls: [{ name: 'report_intent', arguments: { intent: 'Find the mistake.' } }] }

  const report = { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] }

  const { status, stdout, stderr } = await asModel([intent, RUN_TESTS, repair, RUN_TESTS, report])

  expect(stderr).toBe('')
  expect(status).toBe(0)
  expect(stdout).toContain('str_replace_editor  src/price.js')
})

test('fails with a model that repairs nothing', async () => {
  const { status, stderr } = await asModel([RUN_TESTS])

  expect(status).toBe(1)
  expect(stderr).toContain('the tests pass in the end')
})
