import { expect, it, onTestFinished } from 'vitest'
import type { RunEvent } from '../../contracts/events.ts'
import type { RestrictionLevel } from '../../contracts/restrictions.ts'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, operator, startService } from './service-rig.ts'

const DONE: ModelReply = { text: 'Done.' }
const ANSWERS: readonly ModelReply[] = [
  { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded', summary: 'done' } }] },
  DONE,
]

/** A service whose model answers like this, and a run that asks it. */
async function aRunWith(respond: (index: number) => ModelReply, budgets: { model_requests?: number } = {}) {
  const model = await startModelServer({ respond: (_request, index) => respond(index) })
  onTestFinished(() => model.close())
  const { service, aWorkspace, close } = await startService({ OPENAI_BASE_URL: model.url })
  onTestFinished(close)
  const { id } = await service.startRun(alice, {
    ...aRun(aWorkspace(), [], { budgets }),
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  const seen: RunEvent[] = []
  const ended = follow(service, id, (event) => void seen.push(event))
  const restrict = (level: RestrictionLevel) =>
    service.setRestriction(operator, { scope: { kind: 'run', id }, level, reason: 'incident 42' })
  const read = () => service.readRun(alice, id)
  return { model, ended, seen, restrict, read }
}

it('continues a turn whose model request was open when the run was frozen', async () => {
  const { model, ended, seen, restrict, read } = await aRunWith((index) =>
    index === 0 ? { hang: true } : (ANSWERS[index - 1] ?? DONE),
  )
  await until('the model has the request', () => model.requests.length === 1)

  await restrict('frozen')
  const refusals = () =>
    seen
      .flatMap((event) => (event.type === 'egress.denied' ? [event.data] : []))
      .filter(({ method }) => method)
  await until('the request is refused when it is repeated', () => refusals().length > 0)
  const whileFrozen = { state: (await read()).state, requests: model.requests.length }
  await restrict('normal')
  const events = await ended

  expect(refusals()).toMatchObject([{ rule: 'restricted', reason: expect.stringMatching(/frozen/) }])
  expect(whileFrozen).toEqual({ state: 'running', requests: 1 })
  expect((await read()).state).toBe('succeeded')
  expect(model.requests).toHaveLength(3)
  expect(dataOf(events, 'turn.ended')).toMatchObject([{ state: 'completed' }])
})

it('waits for a busy model server, says so once, and counts no request that waited', async () => {
  const busy: ModelReply = { status: 503, headers: { 'retry-after': '1' } }
  // More often than the agent runtime repeats a request by itself.
  const { model, ended, read } = await aRunWith(
    (index) => (index < 8 ? busy : (ANSWERS[index - 8] ?? DONE)),
    {
      model_requests: 3,
    },
  )

  const events = await ended

  expect(dataOf(events, 'run.failed')).toEqual([])
  expect((await read()).state).toBe('succeeded')
  expect(model.requests).toHaveLength(10)
  expect(dataOf(events, 'sandbox.warning').filter(({ category }) => category === 'model-waits')).toEqual([
    expect.objectContaining({
      message: expect.stringMatching(/AgentHost repeats the request for up to 5 minutes: .*HTTP 503/),
    }),
  ])
  expect((await read()).budgets).toMatchObject({ model_requests: { used: 2 } })
})
