import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import { type ModelServer, startModelServer } from '../fakes/model-server.ts'
import { alice, aRun, dataOf, follow, shell, startService, tool } from './service-rig.ts'

/** Each answer of this model has 11 input tokens and 7 output tokens, and asks for one more call. */
const TOKENS_PER_ANSWER = 18

let model: ModelServer
let started: Awaited<ReturnType<typeof startService>>

beforeAll(async () => {
  const again = { toolCalls: [{ name: 'report_intent', arguments: { intent: 'go on' } }] }
  model = await startModelServer({ respond: () => again })
  started = await startService({ OPENAI_BASE_URL: model.url })
})
afterAll(async () => {
  await started.close()
  await model.close()
})

const steps = (count: number): PlanStep[] =>
  Array.from({ length: count }, (_, index) => tool('report_intent', { intent: `step ${index + 1}` }))

describe('a budget', () => {
  it('is reported when it is used up, and fails the run with the next step to take', async () => {
    const { service, aWorkspace } = started
    const request = aRun(aWorkspace('steps'), [...steps(10), shell('echo never')], { budgets: { steps: 10 } })

    const run = await service.startRun(alice, request)
    const events = await follow(service, run.id)

    expect(dataOf(events, 'run.budget').at(-1)).toEqual({ kind: 'steps', used: 10, limit: 10 })
    expect(dataOf(events, 'run.failed')).toEqual([
      {
        code: 'budget_exceeded',
        message: expect.stringMatching(/budget steps: 10 of 10\..*--budget steps=N.*settings/),
      },
    ])
    expect(dataOf(events, 'command.output')).toEqual([])
    const { budgets } = await service.readRun(alice, run.id)
    expect(budgets).toMatchObject({ steps: { limit: 10 }, tokens: { used: 0 } })
    // A call that was not released any more has ended too.
    expect(budgets?.steps.used).toBeGreaterThanOrEqual(10)
  })

  it('of tokens or of requests stops a model that never stops', async () => {
    const { service, aWorkspace } = started
    const loop = (name: string, budgets: { tokens: number } | { model_requests: number }) =>
      service.startRun(alice, {
        ...aRun(aWorkspace(name), [], { budgets }),
        agent: { kind: 'openaiCompatible', model: 'any-model' },
      })

    const requests = await loop('requests', { model_requests: 5 })
    const events = await follow(service, requests.id)
    const used = (await service.readRun(alice, requests.id)).budgets
    const before = model.requests.length
    const tokens = await loop('tokens', { tokens: 100 })
    const refused = await follow(service, tokens.id)

    expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'budget_exceeded' }])
    expect(dataOf(events, 'run.budget').at(-1)).toEqual({ kind: 'model_requests', used: 5, limit: 5 })
    // The proxy and the agent both see the usage of each answer, and it is counted once.
    expect(used).toMatchObject({ model_requests: { used: 5 }, tokens: { used: 5 * TOKENS_PER_ANSWER } })
    expect(dataOf(refused, 'run.failed')).toMatchObject([
      {
        code: 'budget_exceeded',
        message: expect.stringMatching(/has used 0 of its budget tokens of 100, and the next request/),
      },
    ])
    expect(dataOf(refused, 'egress.denied')).toMatchObject([{ rule: 'budget', count: 1 }])
    expect(model.requests, 'nothing was sent').toHaveLength(before)
  })

  it('of event bytes stops a run that says too much', async () => {
    const { service, aWorkspace } = started
    const noise = shell('while :; do echo 0123456789012345678901234567890123456789; done')

    const run = await service.startRun(
      alice,
      aRun(aWorkspace('noise'), [noise], { budgets: { event_bytes: 100_000 } }),
    )
    const events = await follow(service, run.id)

    expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'budget_exceeded' }])
    expect(dataOf(events, 'run.budget').at(-1)).toMatchObject({ kind: 'event_bytes', limit: 100_000 })
  })

  it('of wall-clock time also counts while nothing happens', async () => {
    const { service, aWorkspace } = started

    const run = await service.startRun(
      alice,
      aRun(aWorkspace('wall'), [{ kind: 'wait', ms: 600_000 }], { budgets: { wall_seconds: 2 } }),
    )
    const events = await follow(service, run.id)

    const reports = dataOf(events, 'run.budget')
    expect(reports.map(({ kind }) => kind)).toEqual(Array(reports.length).fill('wall_seconds'))
    expect(reports.at(-1)?.used).toBeGreaterThanOrEqual(2)
    expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'budget_exceeded' }])
    expect((await service.readRun(alice, run.id)).budgets?.wall_seconds).toMatchObject({ limit: 2 })
  })

  it('does not end a run that stays below it', async () => {
    const { service, aWorkspace } = started

    const run = await service.startRun(alice, aRun(aWorkspace('few'), steps(3), { budgets: { steps: 4 } }))
    const events = await follow(service, run.id)

    expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
    expect(dataOf(events, 'run.budget').at(-1)).toEqual({ kind: 'steps', used: 2, limit: 4 })
  })

  it('of a request cannot exceed the settings', async () => {
    const { service, aWorkspace } = started
    const operator = { owner: 'root', role: 'operator' } as const
    await service.replacePolicy(operator, { budgets: { steps: 2, tokens: 1000 } })

    const wide = service.startRun(alice, aRun(aWorkspace('wide'), steps(3), { budgets: { steps: 3 } }))
    await expect(wide).rejects.toMatchObject({
      code: 'policy_denied',
      message: expect.stringContaining('steps: the settings allow 2'),
    })
    const run = await service.startRun(alice, aRun(aWorkspace('wide'), steps(3), { budgets: { tokens: 10 } }))
    const events = await follow(service, run.id)
    await service.replacePolicy(operator, {})

    expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'budget_exceeded' }])
    expect((await service.readRun(alice, run.id)).budgets).toMatchObject({
      steps: { limit: 2 },
      tokens: { used: 0, limit: 10 },
    })
  })
})
