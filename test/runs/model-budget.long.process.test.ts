import { readFileSync } from 'node:fs'
import { expect, it, onTestFinished } from 'vitest'
import type { Budgets } from '../../contracts/budgets.ts'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'
import { processesWith } from '../helpers/processes-with.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, dataOf, follow, startService } from './service-rig.ts'

/** Of each answer of the model server. */
const TOKENS = 18

async function aPlace(respond: (index: number) => ModelReply, env: Record<string, string> = {}) {
  const model = await startModelServer({ respond: (_request, index) => respond(index) })
  const started = await startService({ OPENAI_BASE_URL: model.url, ...env })
  onTestFinished(async () => {
    await started.close()
    await model.close()
  })
  const { service, aWorkspace } = started
  const start = (budgets: Budgets, interactive = false) =>
    service.startRun(alice, {
      ...aRun(aWorkspace(), [], { budgets, interactive }),
      agent: { kind: 'openaiCompatible', model: 'any-model' },
    })
  const used = async (id: string) => (await service.readRun(alice, id)).budgets?.tokens.used ?? 0
  return { ...started, model, start, used }
}

const report: ModelReply = {
  toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }],
}

it.each([
  ['without a key', {}],
  [
    'with a key, in the process that inserts it',
    { OPENAI_API_KEY: 'sk-keyOfTheModelServer0000000000000001' },
  ],
])('lets a run work within its budget of tokens, and counts the usage %s', async (_name, env) => {
  const answers = (index: number) => (index === 0 ? report : { text: 'Done.' })
  const { service, start, used, model } = await aPlace(answers, env)

  const { id } = await start({ tokens: 1_000_000 })
  const events = await follow(service, id)

  expect(dataOf(events, 'done')).toEqual([{ state: 'succeeded' }])
  expect(await used(id)).toBe(model.requests.length * TOKENS)
})

it('ends an interactive run whose next request does not fit, although its turn could be repeated', async () => {
  const { service, start, model } = await aPlace(() => ({ text: 'Hello.' }))

  const { id } = await start({ tokens: 200 }, true)
  const events = await follow(service, id)

  expect(dataOf(events, 'run.failed')).toMatchObject([{ code: 'budget_exceeded' }])
  expect(model.requests).toEqual([])
})

it('counts the open request as a whole if the proxy is killed, and the budget is not there again', async () => {
  const { service, start, used, model } = await aPlace((index) =>
    index === 0 ? { hang: true } : { text: 'Done.' },
  )
  const { id } = await start({ tokens: 1_000_000 }, true)
  await until('the server has the request', () => model.requests.length === 1)
  expect(await used(id)).toBe(0)

  const isOwn = (pid: number) => {
    try {
      return readFileSync(`/proc/${pid}/status`, 'utf8').includes(`PPid:\t${process.pid}\n`)
    } catch {
      return false
    }
  }
  const [proxy] = processesWith('/egress/server.ts').filter(isOwn)
  if (proxy === undefined) throw new Error('there is no proxy')
  process.kill(proxy, 'SIGKILL')

  await until('it is counted', async () => (await used(id)) > 1000)
  await until('the agent asks again', () => model.requests.length > 1)
  const lost = await used(id)
  await service.cancel(alice, id)
  await follow(service, id)
  expect(lost).toBeLessThan(1_000_000)
})
