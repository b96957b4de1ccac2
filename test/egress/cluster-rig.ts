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
import { ControlHub } from '../../runtime/api/egress/control-hub.ts'
import { buildControlApp } from '../../runtime/api/egress/control-listener.ts'
import { rulesFor } from '../../runtime/api/egress/network-rules.ts'
import { ReportWriter } from '../../runtime/api/egress/report-writer.ts'
import { signEgressToken } from '../../runtime/api/egress/sign-token.ts'
import { createTrust } from '../../runtime/api/egress/trust.ts'
import { type DeploymentKeys, deploymentKeysOf } from '../../runtime/api/keys/deployment-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { Restrictions } from '../../runtime/api/runs/restrictions/restrictions.ts'
import { startReplica } from '../../runtime/egress/cluster/replica.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { EgressRelay } from '../../runtime/runner/pod/egress-relay.ts'
import type { Store } from '../../runtime/store/store.ts'
import { givenRun } from '../store/rows.ts'
import { openAt } from '../store/store-under-test.ts'
import { HOST, received } from './proxy-rig.ts'

const PROXY_SUBJECT = 'system:serviceaccount:agentweaver-egress:agentweaver-egress-proxy'
const CONTROL = 'agentweaver-control'

/** Tokens of the cluster as its API server would sign them: subject, audience. */
const TOKENS: Readonly<Record<string, readonly [string, string]>> = {
  'proxy-token': [PROXY_SUBJECT, CONTROL],
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

/** The keys, the store and the rules that all processes of the API share. */
export async function deploymentRig(ports: number[], entry: Partial<EgressDestination> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-cluster-egress-'))
  const store = await openAt({ kind: 'sqlite', file: join(folder, 'store.db') })
  const { privateKey } = generateKeyPairSync('ed25519')
  const keys = await deploymentKeysOf({ root: new Uint8Array(32), privateKey }, join(folder, 'keys'))
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, 'proxy-token\n')
  const destination: EgressDestination = {
    ...{ host: HOST, ports, methods: 'any', phases: ['work'], caller: 'any', addresses: ['127.0.0.1'] },
    ...entry,
  }
  const rules = rulesFor({ agent: [destination], command: [] }, { agent: [], command: [] })
  onTestFinished(async () => {
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { folder, store, keys, rules, tokenFile }
}

export type Deployment = Awaited<ReturnType<typeof deploymentRig>>

/** The control port of one process of the API. */
export async function startControl({ store, keys, rules }: Deployment, port = 0) {
  const clock = () => new Date()
  const parts = {
    store,
    audit: createAuditTrail(keys),
    redact: (text: string) => text,
    clock,
    log: silentLog,
  }
  const writer = new ReportWriter(parts)
  const restrictions = new Restrictions({ store, log: silentLog })
  const { authorities } = await createTrust(keys.derive('egress-ca'))
  const hub = new ControlHub({ store, rules, restrictions, authorities, log: silentLog })
  const app: FastifyInstance = buildControlApp({
    ...{ hub, writer, store, identities, subject: PROXY_SUBJECT, jwksFile: keys.jwksFile, log: silentLog },
  })
  const url = await app.listen({ host: '127.0.0.1', port })
  onTestFinished(() => app.close())
  return { url, app, hub, writer }
}

export async function startProxy({ tokenFile }: Deployment, url: string) {
  const replica = await startReplica({
    ...{ url, tokenFile, port: 0, healthPort: 0, log: silentLog, drain: { leadMs: 0, openMs: 0 } },
  })
  onTestFinished(() => replica.drain())
  return replica
}

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

/** Sends bytes to a port, and returns the answer up to the end of the connection. */
export async function ask(port: number, ...pieces: string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  const { closed } = received(socket)
  await once(socket, 'connect')
  for (const piece of pieces) socket.write(piece)
  return (await closed).toString('latin1')
}

/** Opens a tunnel, and returns its socket and the head of the answer. */
/** Keys of another deployment. */
export const otherKeys = () => ({
  ticketKey: { kid: 'other', privateKey: generateKeyPairSync('ed25519').privateKey },
})

export async function open(port: number, target: string, credentials?: string) {
  const socket: Socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  const header = credentials === undefined ? '' : `Proxy-Authorization: ${credentials}\r\n`
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${header}\r\n`)
  const [head] = (await once(socket, 'data')) as [Buffer]
  return { socket, head: head.toString('latin1') }
}
