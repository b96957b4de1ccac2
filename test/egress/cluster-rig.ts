import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { onTestFinished } from 'vitest'
import type { EgressCaller, EgressDestination } from '../../contracts/egress.ts'
import { SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { placeholderOf, shapeOf } from '../../runtime/api/credentials/placeholder.ts'
import { NO_OWN_CREDENTIALS, type UserCredentials } from '../../runtime/api/credentials/user-credentials.ts'
import { ByteShares, type ByteSharesOptions } from '../../runtime/api/egress/byte-shares.ts'
import { createClusterChecks } from '../../runtime/api/egress/cluster-checks.ts'
import { ControlHub } from '../../runtime/api/egress/control-hub.ts'
import { buildControlApp } from '../../runtime/api/egress/control-listener.ts'
import type { RouteOf, ServersOf } from '../../runtime/api/egress/control-state.ts'
import { ModelBudgets } from '../../runtime/api/egress/model-budgets.ts'
import { rulesFor } from '../../runtime/api/egress/network-rules.ts'
import { ReportWriter } from '../../runtime/api/egress/report-writer.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import { signEgressToken } from '../../runtime/api/egress/sign-token.ts'
import { createTrust } from '../../runtime/api/egress/trust.ts'
import { type DeploymentKeys, deploymentKeysOf } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { Restrictions } from '../../runtime/api/runs/restrictions/restrictions.ts'
import { startReplica } from '../../runtime/egress/cluster/replica.ts'
import type { ReplicaOptions } from '../../runtime/egress/cluster/replica-options.ts'
import type { ReadUserSecret } from '../../runtime/egress/cluster/user-vault.ts'
import { createLog, silentLog } from '../../runtime/kit/log.ts'
import { present } from '../../runtime/kit/present.ts'
import { EgressRelay } from '../../runtime/runner/pod/egress-relay.ts'
import type { Store } from '../../runtime/store/store.ts'
import { givenRun } from '../store/rows.ts'
import { openAt } from '../store/store-under-test.ts'
import { HOST, received } from './proxy-rig.ts'

const PROXY_SUBJECT = 'system:serviceaccount:agentweaver-egress:agentweaver-egress-proxy'
const CONTROL = 'agentweaver-control'
const CREDENTIALS = 'agentweaver-credentials'

/** Tokens of the cluster as its API server would sign them: subject, audience. */
const TOKENS: Readonly<Record<string, readonly [string, string]>> = {
  'proxy-token': [PROXY_SUBJECT, CONTROL],
  'credentials-token': [PROXY_SUBJECT, CREDENTIALS],
  'sandbox-token-for-credentials': [
    'system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host',
    CREDENTIALS,
  ],
  'sandbox-token': ['system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host', 'agentweaver-api'],
  'sandbox-token-for-control': [
    'system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host',
    CONTROL,
  ],
  'proxy-token-for-api': [PROXY_SUBJECT, 'agentweaver-api'],
}

const identities = {
  verify: async (token: string, audience: string) => {
    const [subject, meant] = TOKENS[token] ?? []
    if (subject === undefined || meant !== audience) throw new Error('the token is not valid')
    return { subject, expiresAt: new Date(Date.now() + 600_000) }
  },
}

/** The value of every credential. */
export const CANARY = 'ghp_canaryOfTheClusterCanaryOfCluster001'

/** The keys, the store and the rules that all processes of the API share. */
export async function deploymentRig(ports: number[], entry: Partial<EgressDestination> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-cluster-egress-'))
  const store = await openAt({ kind: 'sqlite', file: join(folder, 'store.db') })
  const { privateKey } = generateKeyPairSync('ed25519')
  const keys = await deploymentKeysOf({ root: new Uint8Array(32), privateKey }, join(folder, 'keys'))
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, 'proxy-token\n')
  const credentialsTokenFile = join(folder, 'credentials-token')
  writeFileSync(credentialsTokenFile, 'credentials-token\n')
  const destination: EgressDestination = {
    ...{ host: HOST, ports, methods: 'any', phases: ['work'], caller: 'any', addresses: ['127.0.0.1'] },
    ...entry,
  }
  const rules = rulesFor({ agent: [destination], command: [] }, { agent: [], command: [] })
  const reads: string[] = []
  const credentials = createRunCredentials(
    {
      ...NO_CREDENTIALS,
      has: () => true,
      placeholderOf: (key, wanted) => placeholderOf(key, wanted, shapeOf(CANARY)),
      read: async (id) => {
        reads.push(id)
        return CANARY
      },
    },
    NO_OWN_CREDENTIALS,
    keys.derive('placeholder'),
  )
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { folder, store, keys, rules, tokenFile, credentialsTokenFile, credentials, reads }
}

/** `routeOf`: the model server of each run. */
export type Deployment = Awaited<ReturnType<typeof deploymentRig>> & {
  readonly routeOf?: RouteOf
  readonly serversOf?: ServersOf
  readonly clock?: () => Date
  /** The credentials that owners set. @default none can be checked */
  readonly users?: Pick<UserCredentials, 'answerFor'>
  /** How long a check of a credential may take. */
  readonly checkMs?: number
  /** How the bytes of a run are shared. */
  readonly bytes?: Omit<ByteSharesOptions, 'store'>
}

/** Starts one process of the API with its control port, to which the processes of the egress proxy connect. */
export async function startControl(
  { clock = () => new Date(), users, checkMs, ...deployment }: Deployment,
  port = 0,
) {
  const { store, keys, rules, credentials, routeOf, serversOf, bytes } = deployment
  const budgets = new ModelBudgets(store)
  const shares = new ByteShares({ store, ...bytes })
  const parts = {
    store,
    budgets,
    shares,
    audit: createAuditTrail(keys),
    redact: (text: string) => text,
    clock,
    log: silentLog,
  }
  const writer = new ReportWriter(parts)
  const restrictions = new Restrictions({ store, log: silentLog })
  const trust = await createTrust(keys.derive('egress-ca'))
  const lines: string[] = []
  const log = logTo(lines)
  const state = { store, rules, restrictions, credentials, routeOf, serversOf, clock, log }
  const hub = new ControlHub({ ...state, authorities: trust.authorities })
  const checks = createClusterChecks({
    ...{ store, log, ...present({ waitMs: checkMs }) },
    answerFor: (row) => {
      if (users) return users.answerFor(row)
      throw new Error('no owner has set a credential')
    },
  })
  const app: FastifyInstance = buildControlApp({
    ...{
      ...state,
      ...{ hub, checks },
      writer,
      budgets,
      shares,
      identities,
      subject: PROXY_SUBJECT,
      jwksFile: keys.jwksFile,
    },
  })
  const url = await app.listen({ host: '127.0.0.1', port })
  onTestFinished(() => app.close())
  return { url, app, hub, writer, trust, lines, restrictions, checks }
}

const logTo = (lines: string[]) => createLog({ level: 'debug', write: (line) => void lines.push(line) })

const QUICK = { healthPort: 0, log: silentLog, drain: { leadMs: 0, openMs: 0 } }

export async function startProxy(
  { tokenFile, folder }: Deployment,
  url: string,
  more: Pick<ReplicaOptions, 'upstream' | 'limits' | 'silenceMs'> = {},
) {
  const listen = { port: 0, brokerPath: brokerPathIn(folder) }
  const replica = await startReplica({ ...QUICK, url, tokenFile, listen, ...more })
  onTestFinished(() => replica.drain())
  return replica
}

/** The process of the same replica that inserts credentials. */
export async function startBroker(
  { credentialsTokenFile: tokenFile, folder }: Deployment,
  url: string,
  {
    readSecret,
    ...more
  }: Pick<ReplicaOptions, 'roots' | 'upstream' | 'resolve' | 'checkMs'> & {
    readSecret?: ReadUserSecret
  } = {},
) {
  const listen = { socketPath: brokerPathIn(folder), readSecret }
  const broker = await startReplica({ ...QUICK, url, tokenFile, listen, ...more })
  onTestFinished(() => broker.drain())
  return broker
}

export const brokerPathIn = (folder: string) => join(folder, 'broker')

const POD = { uid: 'pod-1', addresses: ['127.0.0.1'] }

/** A run whose sandbox has network access. */
export async function givenNetwork(store: Store, patch: SandboxSettingsPatch = {}, pod = POD) {
  const settings = SandboxSettings.parse({ network_enabled: true, ...patch })
  const runId = await givenRun(store, { settings, state: 'running' })
  await store.transaction((tx) => tx.changeRun(runId, { generation: 1 }))
  await store.openNetwork({ runId, generation: 1, kind: 'agent', pod })
  return runId
}

interface TokenOptions {
  readonly keys: Pick<DeploymentKeys, 'ticketKey'>
  readonly runId: string
  readonly generation?: number
  readonly caller?: EgressCaller
  readonly pod?: typeof POD
  readonly now?: Date
}

export const tokenFor = ({ keys, ...about }: TokenOptions) =>
  signEgressToken(keys.ticketKey, {
    ...{ generation: 1, caller: 'commands', pod: POD, now: new Date() },
    ...about,
  })

export async function startRelay(address: string) {
  const relay = new EgressRelay({ address, log: silentLog, port: 0 })
  const port = await relay.listen()
  onTestFinished(() => relay.close())
  return { relay, port }
}

/** A port of this machine, or the path of a socket. */
const connectAt = (at: number | string): Socket =>
  typeof at === 'string' ? connect(at) : connect(at, '127.0.0.1')

/** Sends bytes to a port, and returns the response up to the end of the connection. */
export async function ask(at: number | string, ...pieces: string[]): Promise<string> {
  const socket = connectAt(at)
  const { closed } = received(socket)
  await once(socket, 'connect')
  for (const piece of pieces) socket.write(piece)
  return (await closed).toString('latin1')
}

/** Keys of another deployment. */
export const otherKeys = () => ({
  ticketKey: { kid: 'other', privateKey: generateKeyPairSync('ed25519').privateKey },
})

/** Opens a tunnel, and returns its socket and the head of the response. */
export async function open(at: number | string, target: string, credentials?: string) {
  const socket = connectAt(at)
  socket.on('error', () => undefined)
  const header = credentials === undefined ? '' : `Proxy-Authorization: ${credentials}\r\n`
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${header}\r\n`)
  const { promise, resolve } = Promise.withResolvers<string>()
  socket.once('data', (head: Buffer) => resolve(head.toString('latin1')))
  socket.once('close', () => resolve(''))
  return { socket, head: await promise }
}
