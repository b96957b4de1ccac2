import { readFileSync } from 'node:fs'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import type { RequestedAgent } from '../../contracts/agents.ts'
import { PROXY_IDENTITY } from '../../contracts/egress.ts'
import { createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { resolveAgent } from '../../runtime/agents/registry.ts'
import { createLaptop, startOnPort } from '../agent-host/laptop-hosts.ts'
import { filesWith, memoryOf } from '../cluster/helpers/canary-search.ts'
import { BEARER, collect, configure, never, turnEnded } from '../conformance/agent-host-cases/host.ts'
import { familyOf } from '../helpers/processes-with.ts'
import { until } from '../helpers/until.ts'
import { open, otherKeys, tokenFor } from './cluster-rig.ts'
import {
  type Foundry,
  givenFoundryRun,
  LOGIN,
  MODELS,
  OTHER,
  spawnRole,
  startFoundry,
} from './foundry-rig.ts'

/** A failure that the proxy does not try again within one request. */
const DOWN = { status: 503, headers: { 'retry-after': '60' } }

const laptop = createLaptop()
afterAll(() => laptop.remove())

/** A real AgentHost with the agent of a run, as the service configures it. */
async function startAgent({ models, port, caFile }: Foundry) {
  const requested: RequestedAgent = { kind: 'foundry', model: 'gpt-fake' }
  const egressUrl = `http://127.0.0.1:${port}/model/v1`
  const host = await startOnPort(laptop, {
    NODE_EXTRA_CA_CERTS: caFile,
    SSL_CERT_FILE: caFile,
    HTTPS_PROXY: `http://127.0.0.1:${port}`,
    NO_PROXY: 'localhost,127.0.0.1,::1',
  })
  onTestFinished(() => host.close())
  const change = resolveAgent(requested, { ...models, egressUrl }, 'ada')
  const subject = { start: async () => host, keys: () => laptop.keys, hasIdentity: false }
  const { status, text } = await configure(subject, host, { change })
  expect(status, text).toBe(200)
  const client = createAgentHostClient(host.address, BEARER)
  onTestFinished(() => client.close())
  const run = async (token: string) => {
    await client.giveEgress({ agentHostToken: token }, never)
    await client.turns.start({ id: 't1', prompt: 'go' }, never)
    const events = (await collect({ client }, turnEnded)).map(({ event }) => event)
    return { end: events.at(-1), events }
  }
  return { host, run }
}

async function eventsOf({ store }: Foundry, runId: string, wanted: string) {
  const events = await store.readEvents(runId, 0, 100)
  return events.map(({ event }) => event).filter(({ type }) => type === wanted)
}

it('runs an agent with a token of the proxy, which is nowhere in its sandbox', async () => {
  const rig = await startFoundry()
  const { runId, token } = await givenFoundryRun(rig)
  const { host, run } = await startAgent(rig)
  const egressToken = await token()

  const { end } = await run(egressToken)

  expect(end, `${rig.broker.said()}${host.log()}`).toMatchObject({ data: { state: 'completed' } })
  const [first = ''] = rig.issued
  expect(rig.service.paths).toEqual(['POST /openai/v1/chat/completions'])
  expect(rig.service.requests[0]?.headers['authorization']).toBe(`Bearer ${first}`)
  expect(new Set(rig.names.asked)).toEqual(new Set([LOGIN, MODELS]))
  const used = () => eventsOf(rig, runId, 'egress.credential_used')
  await until('the use is reported', async () => (await used()).length > 0)
  expect(await used()).toMatchObject([{ data: { credentialId: PROXY_IDENTITY, host: MODELS } }])

  const assertion = readFileSync(rig.azure.tokenFile, 'utf8')
  const secrets = [first, assertion]
  const sandbox = await Promise.all(familyOf(host.pid).map((pid) => memoryOf({ pid })))
  expect(sandbox.length).toBeGreaterThan(1)
  expect(sandbox.some((memory) => secrets.some((value) => memory.includes(value)))).toBe(false)
  // The search finds the token of the sandbox there, and the token of Azure in the only process that may have it.
  expect(sandbox.some((memory) => memory.includes(egressToken))).toBe(true)
  expect((await memoryOf({ pid: rig.broker.pid })).includes(first)).toBe(true)
  expect((await memoryOf({ pid: rig.proxy.pid })).includes(first)).toBe(false)
  for (const value of secrets) expect(await filesWith([laptop.folder], value)).toEqual([])
  for (const pid of familyOf(host.pid))
    for (const file of ['environ', 'cmdline'])
      expect(secrets.filter((value) => readFileSync(`/proc/${pid}/${file}`).includes(value))).toEqual([])
})

it('refuses other paths, models, callers and hosts, and the tokens of other runs', async () => {
  const rig = await startFoundry()
  const { runId, token, ask } = await givenFoundryRun(rig)
  const elsewhere = await givenFoundryRun(rig, {}, { uid: 'pod-1', addresses: ['10.9.9.9'] })
  expect((await ask()).status).toBe(200)
  const sent = rig.service.paths.length

  for (const path of [
    '/model/v1/files',
    '/model/v1/responses/resp_1',
    '/model/v1/../../openai/deployments/gpt-fake/chat/completions',
    '/model/openai/deployments/gpt-fake/chat/completions?api-version=2024-10-21',
    '/model/v1/chat/completions?api-version=2024-10-21',
  ])
    expect(await ask({ path }), path).toMatchObject({ status: expect.toBeOneOf([400, 403, 407]) })
  expect(await ask({ model: 'gpt-other' })).toMatchObject({
    status: 400,
    text: expect.stringContaining('this run may use only the model gpt-fake'),
  })
  expect((await ask({ as: await token('commands') })).text).toContain(
    'only the agent itself may call the model',
  )
  expect((await ask({ as: await elsewhere.token() })).status).toBe(403)
  expect(
    (await ask({ as: await tokenFor({ keys: rig.keys, runId: 'ended', caller: 'agent-host' }) })).status,
  ).toBe(403)
  const forged = await tokenFor({ keys: otherKeys(), runId, caller: 'agent-host' })
  expect((await ask({ as: forged })).status).toBe(401)
  for (const [host, caller] of [
    [MODELS, 'agent-host'],
    [MODELS, 'commands'],
    [LOGIN, 'agent-host'],
    [OTHER, 'agent-host'],
  ] as const) {
    const { socket, head } = await open(rig.port, `${host}:443`, `Bearer ${await token(caller)}`)
    socket.destroy()
    expect(head, `${host} ${caller}`).toMatch(/^HTTP\/1\.1 403/)
  }
  expect(rig.service.paths).toHaveLength(sent)
  expect((await ask()).status).toBe(200)
})

it.each([
  ['another host', `https://${OTHER}/openai/v1`],
  ['another path of the resource', `https://${MODELS}/openai/deployments`],
  ['another port', `https://${MODELS}:8443/openai/v1`],
])('sends no token to %s, also if the service names it', async (_what, upstream) => {
  const route = {
    upstream,
    header: 'authorization' as const,
    models: ['gpt-fake'],
    credential: PROXY_IDENTITY,
  }
  const rig = await startFoundry({ routeOf: () => route })
  const { ask } = await givenFoundryRun(rig)

  expect((await ask()).text).toContain('the model is not on the Azure AI resource of this egress proxy')
  expect(rig.issued).toEqual([])
  expect(rig.service.paths).toEqual([])
})

it('replaces the token before it expires, while runs go on', async () => {
  // A token is replaced five minutes before it expires, so one of four minutes is replaced with the next request.
  const rig = await startFoundry({ tokenSeconds: 240 })
  const { ask } = await givenFoundryRun(rig)

  await until('a request has a later token', async () => {
    expect((await ask()).status).toBe(200)
    return new Set(rig.service.requests.map(({ headers }) => headers['authorization'])).size > 1
  })
})

it('refuses a request for a while if the token endpoint is down, without asking it each time', async () => {
  const rig = await startFoundry()
  const { ask } = await givenFoundryRun(rig)
  rig.azure.entra.failNext(DOWN)

  const first = await ask()
  const second = await ask()

  for (const { status, text } of [first, second]) {
    expect(status).toBe(503)
    expect(text).toContain('the token endpoint responded with 503')
    expect(text).toContain('Try again in some seconds')
  }
  expect(rig.azure.entra.tokenRequests()).toHaveLength(1)
  expect(rig.service.paths).toEqual([])
  await until('a request is sent', async () => (await ask()).status === 200)
  expect(rig.azure.entra.tokenRequests()).toHaveLength(2)
})

it('names the reason if Entra does not know the service account of the proxy', async () => {
  const rig = await startFoundry()
  const { ask } = await givenFoundryRun(rig)
  await rig.azure.project({ subject: 'system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host' })

  expect(await ask()).toMatchObject({
    status: 400,
    text: expect.stringMatching(/AADSTS700213.*Report this to the operator/),
  })
  expect(rig.issued).toEqual([])
})

it('ends the turn with a message that names the role, if the resource refuses the token', async () => {
  const body = { error: { code: 'PermissionDenied', message: 'no role' } }
  const rig = await startFoundry({ answer: () => ({ status: 403, body }) })
  const { token } = await givenFoundryRun(rig)
  const { run } = await startAgent(rig)

  const { end } = await run(await token())

  expect(JSON.stringify(end)).toMatch(
    /agent_failed.*role of the Azure identity of the egress proxy on this resource/,
  )
})

it('lets the turn wait while Entra is down, with a message that names the token endpoint', async () => {
  const rig = await startFoundry()
  const { token } = await givenFoundryRun(rig)
  rig.azure.entra.failNext(DOWN)
  const { run } = await startAgent(rig)

  const { end, events } = await run(await token())

  expect(end).toMatchObject({ data: { state: 'completed' } })
  expect(events).toContainEqual({
    type: 'sandbox.warning',
    data: expect.objectContaining({
      category: 'model-waits',
      message: expect.stringMatching(
        /cannot get a token of its Azure identity: the token endpoint responded with 503/,
      ),
    }),
  })
})

it('passes no answer on that contains the token', async () => {
  const rig = await startFoundry({ answer: (authorization) => ({ text: `I got ${authorization}` }) })
  const { runId, ask } = await givenFoundryRun(rig)

  const { text } = await ask().catch((error: unknown) => ({ text: String(error) }))

  expect(rig.issued).toHaveLength(1)
  expect(text).not.toContain(rig.issued[0])
  await until('the refusal is reported', async () => (await eventsOf(rig, runId, 'egress.denied')).length > 0)
  expect(await eventsOf(rig, runId, 'egress.denied')).toMatchObject([
    { data: { host: MODELS, rule: 'credential-echoed' } },
  ])
})

it('counts the budgets of a run, and ends the run that would use more', async () => {
  const rig = await startFoundry()
  const { runId, ask } = await givenFoundryRun(rig, { budgets: { tokens: 10_000 } })
  const used = async () => (await rig.store.readRun(runId))?.usage.tokens

  expect((await ask()).status).toBe(200)
  await until('the tokens that the server reported are counted', async () => (await used()) === 18)
  // The end of the run may cut the connection before the answer is read.
  const { status } = await ask({ tokens: 20_000 }).catch(() => ({ status: 402 }))

  expect(status).toBe(402)
  expect(await rig.store.readRun(runId)).toMatchObject({ ending: { code: 'budget_exceeded' } })
  expect(rig.service.paths).toHaveLength(1)
})

it.each(['AGENTWEAVER_EGRESS_FOUNDRY_URL', 'AGENTWEAVER_EGRESS_VAULT_URL'])(
  'does not start the process that all connections reach with the identity for %s',
  async (key) => {
    const { env } = await startFoundry()
    const { AGENTWEAVER_EGRESS_FOUNDRY_URL: foundry, ...login } = env.broker
    const azure = Object.fromEntries(Object.entries(login).filter(([name]) => name.startsWith('AZURE_')))
    const url = key.includes('FOUNDRY') ? (foundry ?? '') : 'https://aw-users.vault.azure.net'
    const { child, exited, said } = spawnRole([], { ...env.proxy, ...azure, [key]: url })
    await Promise.race([exited, until('the process listens', () => said().includes('listening'))])

    expect(said()).toContain(`${key} is only for "credentials"`)
    await exited
    expect(child.exitCode).toBe(78)
    expect(Object.keys(env.proxy).filter((name) => /AZURE|FOUNDRY|VAULT/.test(name))).toEqual([])
  },
)
