import { expect, it, onTestFinished } from 'vitest'
import type { RunEvent } from '../../contracts/events.ts'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, startService, typesOf } from './service-rig.ts'

const NO_MODEL: ModelReply = { status: 404, body: { error: { message: 'no such model' } } }
const REPORT: ModelReply = {
  toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded', summary: 'reached it' } }],
}

/** A service with a model that gives these replies, request by request, and text after the last one. */
async function aServiceWithModel(replies: ModelReply[], env: Record<string, string> = {}) {
  const model = await startModelServer({ respond: (_request, index) => replies[index] ?? { text: 'ok' } })
  onTestFinished(() => model.close())
  const { service, aWorkspace, close } = await startService({ OPENAI_BASE_URL: model.url, ...env })
  onTestFinished(close)
  const start = (interactive: boolean) =>
    service.startRun(alice, {
      ...aRun(aWorkspace(), [], { interactive }),
      agent: { kind: 'openaiCompatible', model: 'any-model' },
    })
  return { service, start }
}

/** Calls a function once, at the first event for which the condition holds. */
function once(matches: (event: RunEvent) => boolean, react: () => Promise<unknown>) {
  let isDone = false
  return async (event: RunEvent) => {
    if (isDone || !matches(event)) return
    isDone = true
    await react()
  }
}

const isFailedTurn = (event: RunEvent) => event.type === 'turn.ended' && event.data.state === 'failed'

it('keeps an interactive run open after a failed turn, and takes the next turn', async () => {
  const { service, start } = await aServiceWithModel([NO_MODEL, REPORT])
  const run = await start(true)

  const events = await follow(
    service,
    run.id,
    once(isFailedTurn, async () => {
      await until('the run is idle', async () => (await service.readRun(alice, run.id)).state === 'waiting')
      await service.startTurn(alice, run.id, { prompt: 'try again', final: true })
    }),
  )

  expect(dataOf(events, 'turn.ended')).toMatchObject([
    { state: 'failed', code: 'agent_failed', message: expect.stringContaining('no model "any-model"') },
    { state: 'completed' },
  ])
  expect(typesOf(events)).not.toContain('run.failed')
  expect(dataOf(events, 'run.outcome')).toEqual([{ outcome: 'succeeded', summary: 'reached it' }])
  expect(typesOf(events).filter((type) => type === 'sandbox.execution_pod.bound')).toHaveLength(1)
})

it('fails an interactive run whose final turn failed', async () => {
  const { service, start } = await aServiceWithModel([REPORT, { text: 'ok' }, NO_MODEL])
  const run = await start(true)

  const events = await follow(
    service,
    run.id,
    once(
      ({ type }) => type === 'turn.ended',
      () => service.startTurn(alice, run.id, { prompt: 'and now', final: true }),
    ),
  )

  expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'agent_failed' }])
})

it('fails an interactive run that was not used after a failed turn, with the reason of that turn', async () => {
  const { service, start } = await aServiceWithModel([NO_MODEL], { AGENTWEAVER_IDLE_TIMEOUT_SECONDS: '1' })
  const run = await start(true)

  const events = await follow(service, run.id)

  expect(dataOf(events, 'run.failed')).toMatchObject([
    { code: 'agent_failed', message: expect.stringContaining('no model "any-model"') },
  ])
})

it('fails a run that is not interactive when its turn fails, also if more turns are queued', async () => {
  const { service, start } = await aServiceWithModel([NO_MODEL])
  const run = await start(false)
  await service.startTurn(alice, run.id, { prompt: 'try again', final: false })

  const events = await follow(service, run.id)

  expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'agent_failed' }])
  expect(dataOf(events, 'turn.ended')).toHaveLength(1)
})
