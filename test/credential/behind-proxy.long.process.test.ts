import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { apiEnv } from '../../charts-src/constructs/api-env.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { renderEnvironment } from '../../charts-src/tree/render.ts'
import { placedObjects } from '../../charts-src/tree/tree-files.ts'
import type { RequestedAgent } from '../../contracts/agents.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { type EgressPolicy, loadEgressPolicy, readEgressPolicy } from '../../policies/agent/egress/load.ts'
import { createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import type { ModelSettings } from '../../runtime/agents/kind.ts'
import { resolveAgent } from '../../runtime/agents/registry.ts'
import { readConfig } from '../../runtime/api/config.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { createUserVault } from '../../runtime/api/credentials/user-vault.ts'
import { serversOf } from '../../runtime/api/egress/agent-servers.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { createRestrictionCalls } from '../../runtime/api/runs/restrictions/set-restriction.ts'
import { readerOfVault } from '../../runtime/egress/cluster/user-vault.ts'
import { createLaptop, startOnPort } from '../agent-host/laptop-hosts.ts'
import { anEnvironment, objectIn, policyWithRepository, unreadPolicy } from '../charts/fixture.ts'
import { memoryOf } from '../cluster/helpers/canary-search.ts'
import { BEARER, collect, configure, never, turnEnded } from '../conformance/agent-host-cases/host.ts'
import {
  deploymentRig,
  open,
  startBroker,
  startControl,
  startProxy,
  tokenFor,
} from '../egress/cluster-rig.ts'
import { received, tlsOver } from '../egress/proxy-rig.ts'
import { startCopilotService } from '../fakes/copilot-service.ts'
import type { KeyVaultOptions } from '../fakes/key-vault.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { startTlsFront } from '../fakes/tls-front.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'
import { familyOf } from '../helpers/processes-with.ts'
import { until } from '../helpers/until.ts'
import { givenRun } from '../store/rows.ts'
import { startAzure } from './azure-rig.ts'
import { NAME } from './open-credential.ts'

const LOGIN = 'login.microsoftonline.com'
const VAULT = 'aw-users.vault.azure.net'
const GITHUB = 'api.github.com'
const COPILOT = 'api.business.githubcopilot.com'
const TOKEN = 'gho_0123456789abcdefghijABCDEFGHIJ012345'
const OWN = 'gho_thisOneTheOwnerHasSetThisOne0123456789'
const POD = { uid: 'pod-1', addresses: ['127.0.0.1'] }

const laptop = createLaptop()
afterAll(() => laptop.remove())

/** Tokens as the service finds them. */
const tokenOf =
  ({ credentials }: Pick<ReturnType<typeof ownCredentials>, 'credentials'>) =>
  (owner: string) => {
    const onUse = () => undefined
    if (credentials.isInVault(owner, 'github', 'github.com')) return { onUse }
    const token = credentials.valueOf(owner, 'github', 'github.com')
    return token === undefined ? undefined : { token, onUse }
  }

/** The committed environment of production, with the hosts of the fakes. */
function environment(): Environment {
  const { infra, ...rest } = anEnvironment('prod')
  const { azure } = infra
  if (!azure) throw new Error('production is on Azure')
  const vaults = { ...azure.vaults, userTokens: { ...azure.vaults.userTokens, host: VAULT } }
  return {
    ...rest,
    infra: { ...infra, azure: { ...azure, loginHost: LOGIN, vaults } },
    models: { copilot: { names: ['gpt-fake'] } },
  }
}

/** The settings of the service, and its list of destinations, as the tree of the environment has them. */
function rendered(egress: EgressPolicy) {
  const tree = environment()
  const { models } = readConfig(apiEnv(tree), { home: '/home/a', cwd: '/home/a' })
  const objects = placedObjects(renderEnvironment(tree, egress))
  const policy = objectIn({ environment: tree, objects }, 'ConfigMap', 'agentweaver-policy')['data'][
    'egress.yaml'
  ] as string
  return { models, rules: createNetworkRules(loadEgressPolicy(policy)) }
}

interface Owned {
  /** The token that the owner has set. */
  readonly own?: string
  readonly isInVault?: boolean
  /** An entry of the list lacks `accepts: github`, as it may in a cluster without Azure: AgentHost has the token itself. */
  readonly hasToken?: boolean
  /** The model does not answer the first request. */
  readonly isFirstSilent?: boolean
  /** @default the committed list, in a run without network access of its commands */
  readonly commandsReach?: EgressPolicy
}

/**
 * A run whose agent is configured with the settings of the tree: a real AgentHost, a real replica of the egress proxy, and
 * the servers of Azure and GitHub under their names. The replica reaches them through a proxy that knows their ports.
 */
async function aRunOf(
  requested: RequestedAgent,
  operator: Partial<ModelSettings> = {},
  { own, isInVault = false, hasToken = false, isFirstSilent = false, commandsReach }: Owned = {},
) {
  const azure = await startAzure()
  azure.vault.setSecret(NAME, TOKEN)
  const service = await startCopilotService({
    respond: (_request, index) => (isFirstSilent && index === 0 ? { hang: true } : { text: 'Hello.' }),
    publicOrigin: `https://${COPILOT}`,
  })
  const front = await startTlsFront(
    azure.authority.serverFor(GITHUB, COPILOT),
    Number(new URL(service.origin).port),
  )
  const places = [GITHUB, COPILOT].map((name) => [name, front.port] as const)
  const names = await startNameProxy(
    new Map([...places, [LOGIN, azure.entra.port], [VAULT, azure.vault.port]]),
  )
  onTestFinished(async () => {
    front.close()
    await Promise.all([service.close(), names.close()])
  })
  const { models, rules } = rendered(hasToken ? unreadPolicy() : (commandsReach ?? readEgressPolicy()))
  const rig = await deploymentRig([443])
  const vaultPlace = { identity: azure.settings.identity, vaultUrl: azure.settings.vaultUrl ?? '' }
  const vault = createUserVault({ ...vaultPlace, nameKey: rig.keys.derive('name'), budgetMs: 120_000 })
  const users = ownCredentials({ ...rig, ...(isInVault && { vault }) })
  const rightsOf = (...rights: KeyVaultOptions['roles'][string]) => {
    azure.vault.roles[vaultPlace.identity.clientId] = rights
  }
  const credentials = createRunCredentials(NO_CREDENTIALS, users.credentials, rig.keys.derive('placeholder'))
  const ada = { owner: 'ada', role: 'user' } as const
  const set = (value: string) => users.service.set(ada, 'github', { value })
  if (isInVault) rightsOf('setSecret', 'deleteSecret')
  if (own !== undefined) await set(own)
  rightsOf('getSecret')
  const deployment = { ...rig, credentials, rules, serversOf: serversOf(rules) }
  const { url, restrictions, trust } = await startControl(deployment)
  const upstream = { host: '127.0.0.1', port: Number(new URL(names.url).port) }
  const proxy = await startProxy(deployment, url, { upstream })
  const broker = await startBroker(deployment, url, {
    upstream,
    roots: [azure.authority.certificate],
    ...(isInVault && { readSecret: readerOfVault(vaultPlace, 120_000) }),
  })
  await until('both processes have a lease', () => proxy.lease.isHeld && broker.lease.isHeld)
  const { store, keys } = deployment
  const settings = SandboxSettings.parse({ network_enabled: commandsReach !== undefined })
  const runId = await givenRun(store, { settings, state: 'running', agentSpec: requested })
  await store.transaction((tx) => tx.changeRun(runId, { generation: 1 }))
  await store.openNetwork({ runId, generation: 1, kind: 'agent', pod: POD })

  const caFile = join(laptop.folder, 'ca.pem')
  writeFileSync(caFile, azure.authority.certificate)
  const proxyUrl = `http://127.0.0.1:${proxy.port}`
  const host = await startOnPort(laptop, {
    NODE_EXTRA_CA_CERTS: caFile,
    SSL_CERT_FILE: caFile,
    HTTPS_PROXY: proxyUrl,
    NO_PROXY: 'localhost,127.0.0.1,::1',
  })
  onTestFinished(() => host.close())
  const change = resolveAgent(
    requested,
    {
      ...{
        ...models,
        needsProxyToken: true,
        ...(!hasToken && { secretNameOf: () => NAME, proxyRoot: trust.root }),
      },
      ...{ gitHubTokenOf: tokenOf(users), ...operator },
    },
    'ada',
  )
  const subject = { start: async () => host, keys: () => laptop.keys, hasIdentity: false }
  const { status, text } = await configure(subject, host, { change })
  expect(status, text).toBe(200)
  const client = createAgentHostClient(host.address, BEARER)
  onTestFinished(() => client.close())
  let turns = 0
  const run = async () => {
    turns += 1
    await client.turns.start({ id: `t${turns}`, prompt: 'go' }, never)
    let ends = 0
    const isLast: typeof turnEnded = (envelope) => turnEnded(envelope) && ++ends === turns
    return (await collect({ client }, isLast)).at(-1)?.event
  }
  const give = async () =>
    client.giveEgress({ agentHostToken: await tokenFor({ keys, runId, caller: 'agent-host' }) }, never)
  await restrictions.refresh()
  const parts = { store, restrictions, clock: () => new Date(), redactText: (text: string) => text }
  const calls = createRestrictionCalls(parts, createAuditTrail(keys), () => undefined)
  const restrict = (level: 'frozen' | 'normal') =>
    calls.setRestriction(
      { owner: 'root', role: 'operator' },
      { scope: { kind: 'run', id: runId }, level, reason: 'a test' },
    )
  return {
    ...{ azure, service, names, proxy, store, keys, runId, restrict, client, give, run, set, host },
    ...{ users, ada, rightsOf, vault, credentials, rules, trust },
  }
}

it('passes TLS on unread for an agent that has the token itself, also to hosts with `accepts: github`', async () => {
  const { service, give, run } = await aRunOf({ kind: 'copilot' }, {}, { hasToken: true, own: OWN })

  await give()
  const end = await run()

  expect(end, JSON.stringify(end)).toMatchObject({ data: { state: 'completed' } })
  expect(service.requests[0]?.headers['authorization']).toBe(`Bearer ${OWN}`)
})

it('inserts the token that the owner has set into the requests of an agent that does not have it', async () => {
  const { service, names, give, run, host } = await aRunOf({ kind: 'copilot' }, {}, { own: OWN })

  await give()
  const end = await run()

  expect(end, JSON.stringify(end)).toMatchObject({ data: { state: 'completed' } })
  expect(service.requests[0]?.headers['authorization']).toBe(`Bearer ${OWN}`)
  expect(service.requests.every(({ headers }) => headers['authorization'] === `Bearer ${OWN}`)).toBe(true)
  expect(new Set(names.asked)).toEqual(new Set([GITHUB, COPILOT]))
  // The search finds what these processes have instead.
  const memories = await Promise.all(familyOf(host.pid).map((pid) => memoryOf({ pid })))
  expect(memories.length).toBeGreaterThan(1)
  expect(memories.some((memory) => memory.includes('gho_insertedByTheEgressProxy'))).toBe(true)
  expect(memories.some((memory) => memory.includes(OWN))).toBe(false)
})

it('inserts the token of the owner from the vault, where the API wrote it and the store does not have it', async () => {
  const { service, give, run, host, store, azure, vault, ada, users, rightsOf } = await aRunOf(
    { kind: 'copilot' },
    {},
    { own: OWN, isInVault: true },
  )
  const { name } = vault.secretOf({ owner: 'ada', kind: 'github', target: 'github.com' }, '0'.repeat(32))

  await give()
  const end = await run()

  expect(end, JSON.stringify(end)).toMatchObject({ data: { state: 'completed' } })
  expect(service.requests.every(({ headers }) => headers['authorization'] === `Bearer ${OWN}`)).toBe(true)
  expect(service.requests.length).toBeGreaterThan(0)
  expect(azure.vault.versionsOf(name)).toHaveLength(1)
  const rows = await store.listUserCredentials()
  expect(rows).toHaveLength(1)
  expect(JSON.stringify(rows)).not.toMatch(new RegExp(`${OWN}|${name}`))
  const memories = await Promise.all(familyOf(host.pid).map((pid) => memoryOf({ pid })))
  expect(memories.some((memory) => memory.includes(OWN))).toBe(false)

  rightsOf('setSecret', 'deleteSecret')
  await users.service.remove(ada, 'github', {})
  expect(await store.listUserCredentials()).toEqual([])
  expect(azure.vault.versionsOf(name).map(({ enabled }) => enabled)).toEqual([true, false])
})

it('uses a token that the owner sets while the run works, from the next request on', async () => {
  const { service, give, run, set } = await aRunOf({ kind: 'copilot' }, {}, { own: TOKEN })
  await give()
  await run()
  const before = service.requests.length

  await set(OWN)
  await until('a turn with the new token', async () => {
    await run()
    return service.requests.slice(before).some(({ headers }) => headers['authorization'] === `Bearer ${OWN}`)
  })

  expect(service.requests[before - 1]?.headers['authorization']).toBe(`Bearer ${TOKEN}`)
})

it('keeps a command from the token, also with the address and the certificate of the proxy', async () => {
  const { proxy, keys, runId, service } = await aRunOf({ kind: 'copilot' }, {}, { own: OWN })
  const { socket, head } = await open(
    proxy.port,
    `${COPILOT}:443`,
    `Bearer ${await tokenFor({ keys, runId, caller: 'commands' })}`,
  )
  socket.destroy()

  expect(head).toMatch(/^HTTP\/1\.1 403 .*/)
  expect(service.paths).toEqual([])
})

it('continues the turn of a run that was frozen in the middle of a request to the model', async () => {
  const { service, give, run, client, restrict } = await aRunOf(
    { kind: 'copilot' },
    {},
    { own: OWN, isFirstSilent: true },
  )
  await give()
  const turn = run()
  await until('the model is asked', () => service.requests.length === 1)

  await restrict('frozen')
  await client.freeze(true, never)
  await restrict('normal')
  await client.freeze(false, never)

  expect(await turn).toMatchObject({ data: { state: 'completed' } })
  expect(service.requests).toHaveLength(2)
})

it('opens these servers to the agent alone, and to no agent of a frozen run', async () => {
  const { proxy, keys, runId, restrict, names } = await aRunOf({ kind: 'copilot' }, {}, { own: OWN })
  const connectAs = async (caller: 'commands' | 'agent-host') => {
    const { socket, head } = await open(
      proxy.port,
      `${GITHUB}:443`,
      `Bearer ${await tokenFor({ keys, runId, caller })}`,
    )
    socket.destroy()
    return head
  }

  expect(await connectAs('commands')).toMatch(/^HTTP\/1\.1 403 .*/)
  expect(await connectAs('commands')).toContain('only the agent itself may reach this host')
  expect(await connectAs('agent-host')).toMatch(/^HTTP\/1\.1 200/)
  await restrict('frozen')
  await until('the proxy refuses', async () => (await connectAs('agent-host')).startsWith('HTTP/1.1 403'))
  expect(names.asked).not.toContain(VAULT)
})

it('serves the agent and its commands at the same host, each with its own entry', async () => {
  const { proxy, keys, runId, service, give, run, trust, credentials, rules, store } = await aRunOf(
    { kind: 'copilot' },
    {},
    { own: OWN, commandsReach: policyWithRepository() },
  )
  const row = await store.readRun(runId)
  const listed = row && rules.destinationsOf(row, 'agent')
  const [placeholder] = credentials.forRun({ id: runId, owner: 'ada' }, listed ?? []).placeholders
  const ca = trust.bundle.split(/(?<=END CERTIFICATE-----\n)/)[0]
  const get = async (caller: 'commands' | 'agent-host', path: string, credential = placeholder?.value) => {
    const token = `Bearer ${await tokenFor({ keys, runId, caller })}`
    const { socket, head } = await open(proxy.port, `${GITHUB}:443`, token)
    expect(head).toMatch(/^HTTP\/1\.1 200/)
    const secure = await tlsOver(socket, { servername: GITHUB, ca })
    const { closed } = received(secure)
    secure.write(
      `GET ${path} HTTP/1.1\r\nHost: ${GITHUB}\r\nAuthorization: Bearer ${credential}\r\nConnection: close\r\n\r\n`,
    )
    return (await closed).toString('latin1')
  }
  const REPOSITORY = '/repos/team/app'
  const SESSION = '/copilot_internal/user'

  await give()
  expect(await run()).toMatchObject({ data: { state: 'completed' } })
  const agents = service.paths.length
  expect(service.paths).toContain(`GET ${SESSION}`)
  expect(service.paths).not.toContain(`GET ${REPOSITORY}`)

  // The fake has no repositories.
  expect(await get('commands', REPOSITORY)).toMatch(/^HTTP\/1\.1 404 /)
  expect(service.paths.slice(agents)).toEqual([`GET ${REPOSITORY}`])
  expect(service.authorizations.slice(agents)).toEqual([`Bearer ${OWN}`])

  expect(await get('commands', SESSION)).toMatch(/^HTTP\/1\.1 403 .*the path/)
  expect(await get('commands', REPOSITORY, 'of-the-agent')).toMatch(/^HTTP\/1\.1 403 .*no other credential/)
  expect(await get('agent-host', REPOSITORY)).toMatch(/^HTTP\/1\.1 403 .*the path/)
  expect(service.paths).toHaveLength(agents + 1)
})
