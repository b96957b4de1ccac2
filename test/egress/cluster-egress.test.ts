import { generateKeyPairSync } from 'node:crypto'
import { decodeJwt } from 'jose'
import { expect, it, onTestFinished } from 'vitest'
import type { EgressDestination } from '../../contracts/egress.ts'
import type { EgressGrant } from '../../contracts/egress-control.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import type { AgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { ClusterEgress } from '../../runtime/api/egress/cluster-egress.ts'
import type { ReportOfRun } from '../../runtime/api/egress/report-writer.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { OpenNetwork } from '../../runtime/store/egress.ts'
import type { RunRow } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'

const anEntry: EgressDestination = {
  ...{ host: 'a.example', ports: [443], methods: 'any', phases: ['work'], caller: 'any' },
}
const ROUTE = { upstream: 'https://a.example/v1', header: 'authorization' as const, models: ['m'] }

function rig({
  networkEnabled = true,
  proxies = 1,
  hasCredential = false,
  hasRoute = false,
  hasServers = false,
  isNetworkEncrypted = false,
} = {}) {
  const opened: OpenNetwork[] = []
  const closed: unknown[] = []
  const told: (ReportOfRun & { runId: string })[] = []
  const given: EgressGrant[] = []
  const rounds = { count: 0 }
  const allowed: EgressDestination[] = hasCredential ? [{ ...anEntry, credential: 'git' }] : []
  const egress = new ClusterEgress({
    store: {
      readRun: async () =>
        ({ settings: SandboxSettings.parse({ network_enabled: networkEnabled }) }) as RunRow,
      openNetwork: async (network) => void opened.push(network),
      closeNetwork: async (key) => void closed.push(key),
      countProxies: async () => {
        rounds.count += 1
        return proxies
      },
    },
    rules: {
      destinationsOf: ({ settings }) => (settings.network_enabled ? allowed : undefined),
      withheldFrom: () => [],
      standingOf: () => 'unlisted',
      loosenedFor: () => ['a.example'],
      addressesOf: () => undefined,
      credentialHosts: { git: new Set(), registry: new Set() },
      gitServer: () => undefined,
      ofAgentHost: [],
    },
    credentials: {
      onChange: () => () => undefined,
      forRun: ({ id: runId }, destinations) => ({
        destinations: [...destinations],
        placeholders: destinations.some(({ credential }) => credential)
          ? [{ credential: 'git', value: `placeholder-of-${runId}` }]
          : [],
        ...(destinations.some(({ credential }) => credential) && {
          environment: { variables: { GIT_TOKEN: `placeholder-of-${runId}` }, gitConfig: [] },
        }),
      }),
    },
    trust: { bundle: 'PEM' },
    isNetworkEncrypted,
    ...(hasServers && { serversOf: () => [{ ...anEntry, caller: 'agent-host' as const }] }),
    ...(hasRoute && { routeOf: () => ROUTE, modelUrl: 'http://10.0.0.128:3128/model/v1' }),
    keys: { ticketKey: { kid: 'k', privateKey: generateKeyPairSync('ed25519').privateKey } },
    writer: {
      write: (runId, report) => void told.push({ ...report, runId }),
      settled: async () => undefined,
    },
    onChange: () => undefined,
    clock: () => new Date(),
    log: silentLog,
    watchEveryMs: 5,
  })
  onTestFinished(() => egress.stop())
  const client = { giveEgress: async (access: EgressGrant) => void given.push(access) }
  const connect = () =>
    egress.connect(
      { uids: { claim: 'c', sandbox: 's', pod: 'p1' }, podAddresses: ['10.0.0.7'] },
      { runId: 'run_1', generation: 3, kind: 'agent', signal: new AbortController().signal },
    )
  return {
    egress,
    allowed,
    connect,
    client: client as unknown as AgentHostClient,
    opened,
    closed,
    told,
    given,
    rounds,
  }
}

it('lists the sandbox and gives it a token that names its pod', async () => {
  const { connect, client, opened, given, closed } = rig()

  const network = await connect()
  await network?.open?.(client)
  await network?.close()

  const pod = { uid: 'p1', addresses: ['10.0.0.7'] }
  expect(opened).toEqual([{ runId: 'run_1', generation: 3, kind: 'agent', pod }])
  const claims = decodeJwt(given[0]?.commandsToken ?? '')
  expect(claims).toMatchObject({
    aud: 'agentweaver-egress',
    sub: 'run_1',
    generation: 3,
    caller: 'commands',
    pod,
  })
  expect(Number(claims.exp) - Number(claims.iat)).toBe(900)
  expect(closed).toEqual([{ runId: 'run_1', generation: 3 }])
})

it('says that requests to a model can be read, unless the operator says that the network is encrypted', async () => {
  const readable = async (options: Parameters<typeof rig>[0]) =>
    (await rig(options).connect())?.isModelReadable

  expect(await readable({ hasRoute: true })).toBe(true)
  expect(await readable({ hasRoute: true, isNetworkEncrypted: true })).toBe(false)
  expect(await readable({})).toBe(false)
})

it('gives placeholders to a sandbox that may use a credential, and to no other', async () => {
  const [some, none] = [rig({ hasCredential: true }), rig()]
  for (const { connect, client } of [some, none]) await (await connect())?.open?.(client)

  expect(some.given[0]?.environment).toEqual({
    variables: { GIT_TOKEN: 'placeholder-of-run_1' },
    gitConfig: [],
  })
  expect(none.given[0]).not.toHaveProperty('environment')
  // The store has no placeholder.
  expect(JSON.stringify(some.opened)).not.toContain('placeholder')
})

it('gives a sandbox the certificates and placeholders of a host that a person has allowed since', async () => {
  const { connect, client, given, egress, allowed } = rig()
  const network = await connect()
  await network?.open?.(client)
  allowed.push({ ...anEntry, authority: 'a', credential: 'git' })

  await egress.changed('run_other')
  expect(given).toHaveLength(1)
  await egress.changed('run_1')

  expect(given[0]).not.toHaveProperty('caBundle')
  expect(given[1]).toMatchObject({ caBundle: 'PEM', environment: { gitConfig: [] } })
})

it('gives only AgentHost a token if only the agent connects, and says that it holds a credential', async () => {
  const { connect, client, given, opened } = rig({ networkEnabled: false, hasServers: true })

  const network = await connect()
  await network?.open?.(client)

  expect(network).toMatchObject({ holdsCredential: true, loosened: [] })
  expect(decodeJwt(given[0]?.agentHostToken ?? '')).toMatchObject({ sub: 'run_1', caller: 'agent-host' })
  expect(given[0]).not.toHaveProperty('commandsToken')
  expect(opened).toHaveLength(1)
})

it('gives nothing to a run without network access', async () => {
  const { connect, opened } = rig({ networkEnabled: false })

  expect(await connect()).toBeUndefined()
  expect(opened).toEqual([])
})

it('reports once to a run that no replica is connected', async () => {
  const { connect, client, told, rounds } = rig({ proxies: 0 })
  const network = await connect()
  await network?.open?.(client)

  await until('the service has looked ten times', () => rounds.count >= 10)

  expect(told).toHaveLength(1)
  expect(told[0]).toMatchObject({ runId: 'run_1', type: 'denied', data: { rule: 'proxy-unavailable' } })
})

it('reports nothing while a replica is connected', async () => {
  const { connect, client, told, rounds } = rig()
  const network = await connect()
  await network?.open?.(client)

  await until('the service has looked ten times', () => rounds.count >= 10)

  expect(told).toEqual([])
})

it('gives AgentHost a separate token if its agent calls a model, and commands none without network access', async () => {
  const { egress, connect, client, given, opened } = rig({ networkEnabled: false, hasRoute: true })

  const network = await connect()
  await network?.open?.(client)

  expect(opened).toMatchObject([{ runId: 'run_1', generation: 3 }])
  expect(given).toEqual([{ agentHostToken: expect.any(String) }])
  expect(decodeJwt(given[0]?.agentHostToken ?? '')).toMatchObject({ sub: 'run_1', caller: 'agent-host' })
  expect(await egress.url()).toBe('http://10.0.0.128:3128/model/v1')
})

it('does not begin a run with a model while no replica is connected', async () => {
  const { egress } = rig({ hasRoute: true, proxies: 0 })

  await expect(egress.url()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('no replica'),
  })
})
