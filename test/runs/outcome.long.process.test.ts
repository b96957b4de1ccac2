import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { StartRunInput } from '../../contracts/api.ts'
import type { RunEvent } from '../../contracts/events.ts'
import { endingWhenIdle } from '../../runtime/api/runs/drive/turn-ending.ts'
import { type ModelReply, type ModelServer, startModelServer, textOf } from '../fakes/model-server.ts'
import { givenRun } from '../store/rows.ts'
import { alice, aRun, dataOf, follow, startService } from './service-rig.ts'

const report = (outcome: 'succeeded' | 'failed'): ModelReply => ({
  toolCalls: [{ name: 'report_outcome', arguments: { outcome, summary: `it ${outcome}` } }],
})
const UNUSABLE: ModelReply = { toolCalls: [{ name: 'frobnicate', arguments: {} }] }

/** The replies of the model to the runs of this file, by task and request. After the last one, it says "ok". */
const scripts = new Map<string, ModelReply[]>()
let model: ModelServer
let started: Awaited<ReturnType<typeof startService>>

beforeAll(async () => {
  model = await startModelServer({
    respond: ({ messages }) => {
      const task = messages.find(({ role }) => role === 'user')
      const script = [...scripts].find(([name]) => textOf(task).includes(name))?.[1]
      return script?.shift() ?? { text: 'ok' }
    },
  })
  started = await startService({ OPENAI_BASE_URL: model.url, AGENTWEAVER_IDLE_TIMEOUT_SECONDS: '2' })
})
afterAll(async () => {
  await started.close()
  await model.close()
})

let runs = 0

/** Runs a task with a model that gives these replies, and sends one further turn if there is a prompt for it. */
async function finish(
  replies: ModelReply[],
  change: Partial<StartRunInput> = {},
  finalPrompt?: string,
): Promise<{ failure: unknown; outcome: unknown; state: unknown }> {
  const task = `task ${++runs}.`
  scripts.set(task, replies)
  const { service, aWorkspace } = started
  const run = await service.startRun(alice, {
    ...aRun(aWorkspace(`project-${runs}`), [], change),
    task,
    agent: { kind: 'openaiCompatible', model: 'any-model' },
  })
  let isSent = false
  const events = await follow(service, run.id, async (event: RunEvent) => {
    if (event.type !== 'turn.ended' || finalPrompt === undefined || isSent) return
    isSent = true
    await service.startTurn(alice, run.id, { prompt: finalPrompt, final: true })
  })
  return {
    state: dataOf(events, 'done')[0]?.state,
    failure: dataOf(events, 'run.failed')[0],
    outcome: dataOf(events, 'run.outcome')[0],
  }
}

const withoutOutcome = (message: RegExp) => ({
  state: 'failed',
  outcome: undefined,
  failure: { code: 'ended_without_outcome', message: expect.stringMatching(message) },
})

/** Each way in which a turn can end before the agent reports, with what the failure says. */
const UNREPORTED: [string, ModelReply[], RegExp][] = [
  ['text without report_outcome', [{ text: 'All done!' }], /without report_outcome.*agentweaver logs run_/],
  ['a content filter', [{ text: 'So', finishReason: 'content_filter' }], /content filter.*another model/],
  ['a cut-off answer', Array(3).fill({ text: 'So', finishReason: 'length' }), /maximum length.*smaller task/],
  ['calls that cannot be carried out', Array(3).fill(UNUSABLE), /"frobnicate".*supports tool calls/],
]

describe('a run whose turn ended with', () => {
  it.each(UNREPORTED)('%s fails, and its message says why', async (_what, replies, message) => {
    expect(await finish([...replies])).toEqual(withoutOutcome(message))
  })

  it.each(UNREPORTED)('%s succeeds if it needs no outcome', async (_what, replies) => {
    const ended = await finish([...replies], { requireOutcome: false })

    expect(ended).toEqual({ state: 'succeeded', failure: undefined, outcome: { outcome: 'succeeded' } })
  })

  it('an error of the model server fails also if it needs no outcome', async () => {
    const ended = await finish([{ status: 404 }], { requireOutcome: false })

    expect(ended).toMatchObject({ state: 'failed', failure: { code: 'agent_failed' } })
  })

  it('a report ends as the agent reported', async () => {
    expect(await finish([report('succeeded')])).toMatchObject({
      state: 'succeeded',
      outcome: { outcome: 'succeeded', summary: 'it succeeded' },
    })
    expect(await finish([report('failed')], { requireOutcome: false })).toMatchObject({
      state: 'failed',
      outcome: { outcome: 'failed', summary: 'it failed' },
    })
  })
})

describe('the last turn of an interactive run', () => {
  const interactive = { interactive: true }

  it('decides, and not an earlier one', async () => {
    const forgotten = await finish([report('succeeded'), { text: 'ok' }], interactive, 'one more thing')
    const corrected = await finish(
      [report('failed'), { text: 'ok' }, report('succeeded')],
      interactive,
      'again',
    )

    expect(forgotten).toEqual(withoutOutcome(/without report_outcome/))
    expect(corrected).toMatchObject({ state: 'succeeded', outcome: { summary: 'it succeeded' } })
  })

  it('decides also if the run ends after the idle timeout', async () => {
    expect(await finish([report('succeeded')], interactive)).toMatchObject({
      state: 'succeeded',
      outcome: { summary: 'it succeeded' },
    })
    expect(await finish([{ text: 'ok' }], interactive)).toEqual(withoutOutcome(/without report_outcome/))
  })
})

it('fails a run that was idle before its first turn ended with idle_timeout', async () => {
  const { store, config } = started
  const id = await givenRun(store, { interactive: true })
  const run = await store.readRun(id)

  const ending = await endingWhenIdle({ store, limits: config.limits }, run!)

  expect(ending).toMatchObject({
    state: 'failed',
    code: 'idle_timeout',
    message: expect.stringContaining('2 s'),
  })
})

it('lets a scripted plan decide whether it reports, unless the request requires it', async () => {
  const { service, aWorkspace } = started
  const silent = aRun(aWorkspace('silent'), [{ kind: 'say', text: 'hello' }])
  const required = await service.startRun(alice, { ...silent, requireOutcome: true })
  const free = await service.startRun(alice, silent)

  expect(dataOf(await follow(service, free.id), 'done')).toEqual([{ state: 'succeeded' }])
  expect(dataOf(await follow(service, required.id), 'run.failed')).toMatchObject([
    { code: 'ended_without_outcome' },
  ])
})

/** A workspace with a settings file. */
function aWorkspaceWith(settings: string): string {
  const path = started.aWorkspace(`with-settings-${++runs}`)
  mkdirSync(join(path, '.agentweaver'))
  writeFileSync(join(path, '.agentweaver/settings.yml'), settings)
  return path
}

it('does not let the settings file of a repository accept a run without an outcome', async () => {
  const path = aWorkspaceWith('require_outcome: false\n')

  const ended = await finish([{ text: 'ok' }], { workspace: { kind: 'path', path } })

  expect(ended).toEqual(withoutOutcome(/without report_outcome/))
})

it('does not accept a run without an outcome if the operator requires one, until the operator no longer does', async () => {
  const { service, aWorkspace } = started
  const operator = { owner: 'root', role: 'operator' } as const
  const request = aRun(aWorkspace('required'), [], { requireOutcome: false })

  await service.replacePolicy(operator, { require_outcome: true })
  const refused = service.startRun(alice, request)
  await expect(refused).rejects.toMatchObject({ code: 'policy_denied' })
  await service.replacePolicy(operator, {})

  const run = await service.startRun(alice, request)
  expect(dataOf(await follow(service, run.id), 'done')).toEqual([{ state: 'succeeded' }])
})

it('does not accept a run without an outcome in a folder whose settings require one', async () => {
  const { service } = started
  const path = aWorkspaceWith('require_outcome: true\n')

  const asked = service.startRun(alice, aRun(path, [], { requireOutcome: false }))

  await expect(asked).rejects.toMatchObject({
    code: 'policy_denied',
    message: expect.stringContaining('require_outcome'),
  })
})
