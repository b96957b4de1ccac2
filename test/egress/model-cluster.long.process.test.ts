import { createServer } from 'node:https'
import { expect, it } from 'vitest'
import { MODEL_CREDENTIAL, type ModelRoute } from '../../contracts/egress.ts'
import { until } from '../helpers/until.ts'
import {
  CANARY,
  deploymentRig,
  givenNetwork,
  startBroker,
  startControl,
  startProxy,
  tokenFor,
} from './cluster-rig.ts'
import { authority, HOST, listening, portOf } from './proxy-rig.ts'

const QUESTION = { model: 'm', messages: [{ role: 'user', content: 'hello' }] }

/** A replica of the proxy with both of its processes, and a model server. */
async function place() {
  const authorizations: (string | undefined)[] = []
  const server = await listening(
    createServer(authority.serverFor(HOST), (request, response) => {
      authorizations.push(request.headers.authorization)
      request.resume().on('end', () => response.end('{"choices":[]}'))
    }),
  )
  const route: ModelRoute = {
    ...{ upstream: `https://${HOST}:${portOf(server)}/v1`, header: 'authorization', models: ['m'] },
    ...{ credential: MODEL_CREDENTIAL, addresses: ['127.0.0.1'] },
  }
  const deployment = { ...(await deploymentRig([443])), routeOf: () => route }
  const { url, restrictions } = await startControl(deployment)
  const proxy = await startProxy(deployment, url)
  const broker = await startBroker(deployment, url, { roots: [authority.certificate] })
  await until('both have a lease', () => proxy.lease.isHeld && broker.lease.isHeld)
  const { store, keys } = deployment
  const ask = async (token: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`http://127.0.0.1:${proxy.port}/model/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify(QUESTION),
      headers: { authorization: `Bearer ${token}`, ...headers },
    })
    return { status: response.status, text: await response.text() }
  }
  return { ask, store, keys, authorizations, restrictions, reads: deployment.reads, broker }
}

it('sends requests of an agent on with the key, which only the second process reads', async () => {
  const { ask, store, keys, authorizations, reads } = await place()
  const runId = await givenNetwork(store, { network_enabled: false })

  const answer = await ask(await tokenFor({ keys, runId, caller: 'agent-host' }))

  expect(answer).toEqual({ status: 200, text: '{"choices":[]}' })
  expect(authorizations).toEqual([`Bearer ${CANARY}`])
  expect(reads).toEqual([MODEL_CREDENTIAL])
})

it('accepts no token of commands, of an ended run or of another pod, and no address that a client names', async () => {
  const { ask, store, keys, authorizations } = await place()
  const runId = await givenNetwork(store)
  const elsewhere = await givenNetwork(store, {}, { uid: 'pod-1', addresses: ['10.9.9.9'] })

  const commands = await ask(await tokenFor({ keys, runId, caller: 'commands' }))
  expect(commands.text).toMatch(/only the agent itself may call the model/)
  const ended = await ask(await tokenFor({ keys, runId: 'ended', caller: 'agent-host' }))
  expect(ended.status).toBe(403)
  const pod = { uid: 'pod-2', addresses: ['127.0.0.1'] }
  expect((await ask(await tokenFor({ keys, runId, caller: 'agent-host', pod }))).status).toBe(403)
  const claimed = { 'Agentweaver-Client': '10.9.9.9' }
  expect((await ask(await tokenFor({ keys, runId: elsewhere, caller: 'agent-host' }), claimed)).status).toBe(
    403,
  )
  expect(authorizations).toEqual([])
  expect((await ask(await tokenFor({ keys, runId, caller: 'agent-host' }), claimed)).status).toBe(200)
})

it('says so while the process with the key does not run', async () => {
  const { ask, store, keys, broker } = await place()
  const runId = await givenNetwork(store)
  await broker.drain()

  const refused = await ask(await tokenFor({ keys, runId, caller: 'agent-host' }))

  expect(refused).toMatchObject({
    status: 503,
    text: expect.stringContaining('inserts credentials is not running'),
  })
})
