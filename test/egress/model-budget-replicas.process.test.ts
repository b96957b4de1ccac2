import { createServer, type ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import type { ModelRoute } from '../../contracts/egress.ts'
import { until } from '../helpers/until.ts'
import { deploymentRig, givenNetwork, startControl, tokenFor } from './cluster-rig.ts'
import { HOST, listening, portOf } from './proxy-rig.ts'
import { startReplicaProcess } from './replica-process.ts'

const LIMIT = 10_000

/** Two replicas of the proxy, each with another process of the API over one store, and a model server that waits. */
async function place() {
  const open: ServerResponse[] = []
  const server = await listening(
    createServer((request, response) => void request.resume().on('end', () => open.push(response))),
  )
  const route: ModelRoute = {
    ...{ upstream: `http://${HOST}:${portOf(server)}/v1`, header: 'authorization', models: ['m'] },
    addresses: ['127.0.0.1'],
  }
  const deployment = { ...(await deploymentRig([443])), routeOf: () => route }
  const { store, keys } = deployment
  const runId = await givenNetwork(store, { budgets: { tokens: LIMIT } })
  const apis = [await startControl(deployment), await startControl(deployment)]
  const replicas = await Promise.all(apis.map(({ url }) => startReplicaProcess(deployment, url)))
  const token = await tokenFor({ keys, runId, caller: 'agent-host' })
  const ask = async (replica: number, max_tokens: number) => {
    const response = await fetch(`http://127.0.0.1:${replicas[replica]?.port}/model/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'm', messages: [], max_tokens }),
      headers: { authorization: `Bearer ${token}` },
    })
    return { status: response.status, text: await response.text() }
  }
  const answer = (tokens: number) => {
    const usage = { prompt_tokens: 0, completion_tokens: tokens, total_tokens: tokens }
    open.pop()?.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ usage }))
  }
  const used = async () => (await store.readRun(runId))?.usage.tokens
  return { ask, answer, used, open, replicas, store, runId }
}

it('never lets two replicas use more than the budget, and gives nothing back when one is killed', async () => {
  const { ask, answer, used, open, replicas, store, runId } = await place()

  const first = ask(0, 6000)
  await until('the server has the first request', () => open.length === 1)
  const second = await ask(1, 6000)
  expect(second.status).toBe(429)
  expect(second.text).toMatch(/6\d\d\d are reserved by requests in progress/)
  answer(500)
  expect((await first).status).toBe(200)
  await until('it is counted', async () => (await used()) === 500)

  const third = ask(1, 6000)
  await until('the server has it', () => open.length === 1)
  answer(700)
  expect((await third).status, 'what the first did not use is free for both').toBe(200)
  await until('it is counted', async () => (await used()) === 1200)

  const killed = ask(0, 6000).catch(() => 'cut')
  await until('the server has it', () => open.length === 1)
  replicas[0]?.child.kill('SIGKILL')
  expect(await killed).toBe('cut')
  expect((await ask(1, 6000)).status).toBe(429)
  expect((await store.readRun(runId))?.ending).toBeUndefined()

  const last = await ask(1, 9000)
  expect(last.status).toBe(402)
  expect(await store.readRun(runId)).toMatchObject({ ending: { code: 'budget_exceeded' } })
})
