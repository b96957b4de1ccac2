import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { apiEnv } from '../../charts-src/constructs/api-env.ts'
import type { ConfigureRequestInput } from '../../contracts/configure.ts'
import { EGRESS_CONTROL_TOKEN, EGRESS_CREDENTIALS_TOKEN } from '../../contracts/egress-proxy-env.ts'
import { EGRESS_PROXY_PORT } from '../../contracts/ports.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { createClient } from '../../runtime/client/client.ts'
import { createLaptop, startOnPort } from '../agent-host/laptop-hosts.ts'
import { makeStateDir, startService } from '../api/service-process.ts'
import { BEARER, collect, configure, never, turnEnded } from '../conformance/agent-host-cases/host.ts'
import { startAzureSide, startFoundryReplica } from '../egress/foundry-rig.ts'
import { startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import { freePort } from '../helpers/free-port.ts'
import { until } from '../helpers/until.ts'

const PROXY = 'system:serviceaccount:agentweaver-egress:agentweaver-egress-proxy'
const WANTED = /^AGENTWEAVER_(?:AGENT_KINDS|FOUNDRY|COPILOT)/

type Configured = Pick<ConfigureRequestInput, 'agent' | 'credential'>

const laptop = createLaptop()
afterAll(() => laptop.remove())

const anAddress = () => `127.${randomInt(2, 250)}.${randomInt(1, 250)}.${randomInt(1, 250)}`

/** The address of the proxy's Service, which connects from the address of the pod to a replica. */
async function startServiceAddress(podIp: string, port: () => number): Promise<string> {
  const address = anAddress()
  const server = createServer((near) => {
    const far = connect({ port: port(), host: '127.0.0.1', localAddress: podIp })
    near.pipe(far).pipe(near)
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
  })
  server.listen(EGRESS_PROXY_PORT, address)
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return address
}

/** The service as a process, with the settings of the tree, on a fake cluster; a replica of its egress proxy; the servers of Azure. */
async function startDeployment() {
  const side = await startAzureSide()
  const folder = mkdtempSync(join(tmpdir(), 'aw-foundry-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const cluster = await startFakeCluster(folder)
  onTestFinished(() => cluster.close())
  const { pod } = cluster
  let port = 0
  const address = await startServiceAddress(pod.ip, () => port)
  const controlPort = await freePort('127.0.0.1')
  writeFileSync(join(folder, 'egress.yaml'), side.policy)
  const api = startService({
    ...Object.fromEntries(Object.entries(apiEnv(side.environment)).filter(([key]) => WANTED.test(key))),
    ...cluster.env,
    AGENTWEAVER_STATE_DIR: await makeStateDir(),
    AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
    AGENTWEAVER_EGRESS_CONTROL_PORT: String(controlPort),
    AGENTWEAVER_EGRESS_PROXY_ADDRESS: address,
  })
  const { url, apiKeyFile } = await api.ready
  const client = createClient({ url, apiKey: (await readFile(apiKeyFile, 'utf8')).trim() })
  const tokenFile = join(folder, 'control-token')
  const credentialsTokenFile = join(folder, 'credentials-token')
  writeFileSync(tokenFile, await pod.sign(PROXY, EGRESS_CONTROL_TOKEN.audience))
  writeFileSync(credentialsTokenFile, await pod.sign(PROXY, EGRESS_CREDENTIALS_TOKEN.audience))
  const controlUrl = `http://127.0.0.1:${controlPort}`
  const replica = await startFoundryReplica(side, { controlUrl, folder, tokenFile, credentialsTokenFile })
  port = replica.port
  return { ...side, ...replica, client, pod, address, api }
}

async function ask(address: string, token: string): Promise<number> {
  const sent = request({
    ...{ host: address, port: EGRESS_PROXY_PORT, path: '/model/v1/chat/completions', method: 'POST' },
    ...{ agent: false, headers: { authorization: `Bearer ${token}` } },
  })
  sent.end(JSON.stringify({ model: 'gpt-fake', messages: [{ role: 'user', content: 'hello' }] }))
  const [response] = await once(sent, 'response')
  response.resume()
  return response.statusCode
}

it('runs an agent of kind foundry with what the service sends to its pod, until the run ends', async () => {
  const { client, pod, address, service, issued, api } = await startDeployment()
  const run = await client.startRun({
    task: 'answer',
    workspace: { kind: 'empty' },
    agent: { kind: 'foundry' },
  })
  const received = (path: string) => pod.bodies.get(path) ?? {}
  await until('the pod has its token', () => 'agentHostToken' in received(AGENT_HOST_ROUTES.egress))
  const { agent, credential } = received(AGENT_HOST_ROUTES.configure) as Configured
  const agentHostToken = String(received(AGENT_HOST_ROUTES.egress)['agentHostToken'])

  expect(credential).toEqual({ kind: 'none' })
  expect(agent).toEqual({
    kind: 'foundry',
    model: {
      name: 'gpt-fake',
      baseUrl: `http://${address}:${EGRESS_PROXY_PORT}/model/v1`,
      server: 'https://aw-models.openai.azure.com/openai/v1',
    },
  })

  const host = await startOnPort(laptop)
  onTestFinished(() => host.close())
  const subject = { start: async () => host, keys: () => laptop.keys, hasIdentity: false }
  const { status, text } = await configure(subject, host, { change: { agent, credential } })
  expect(status, text).toBe(200)
  const agentHost = createAgentHostClient(host.address, BEARER)
  onTestFinished(() => agentHost.close())
  await agentHost.giveEgress({ agentHostToken }, never)
  await agentHost.turns.start({ id: 't1', prompt: 'go' }, never)
  const end = (await collect({ client: agentHost }, turnEnded)).at(-1)?.event

  expect(end, `${api.stderr()}${host.log()}`).toMatchObject({ data: { state: 'completed' } })
  expect(service.requests[0]?.headers['authorization']).toBe(`Bearer ${issued[0]}`)
  expect(await ask(address, agentHostToken)).toBe(200)

  await client.cancel(run.id)
  await until(
    'the token of the ended run is refused',
    async () => (await ask(address, agentHostToken)) === 403,
  )
  const sent = service.requests.length
  expect(await ask(address, agentHostToken)).toBe(403)
  expect(service.requests).toHaveLength(sent)
  expect(issued).toHaveLength(1)
})
