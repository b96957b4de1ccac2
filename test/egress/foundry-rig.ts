import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { onTestFinished } from 'vitest'
import { apiEnv } from '../../charts-src/constructs/api-env.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { RequestedAgent } from '../../contracts/agents.ts'
import { SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { modelRouteOf } from '../../runtime/agents/registry.ts'
import { readConfig } from '../../runtime/api/config.ts'
import type { RouteOf } from '../../runtime/api/egress/control-state.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'
import { aTree, environmentText, type Loose, objectIn, PROXY_SIZE } from '../charts/fixture.ts'
import { type Azure, startAzure } from '../credential/azure-rig.ts'
import { type ModelReply, startModelServer } from '../fakes/model-server.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { startTlsFront } from '../fakes/tls-front.ts'
import { COMPILE_CACHE } from '../helpers/compile-cache.ts'
import { freePort } from '../helpers/free-port.ts'
import { until } from '../helpers/until.ts'
import { givenRun } from '../store/rows.ts'
import { deploymentRig, startControl, tokenFor } from './cluster-rig.ts'

export const LOGIN = 'login.microsoftonline.com'
export const MODELS = 'aw-models.openai.azure.com'
export const OTHER = 'attacker.openai.azure.com'
const SUBJECT = 'system:serviceaccount:agentweaver-egress:agentweaver-egress-proxy'
const AUDIENCE = 'https://cognitiveservices.azure.com'
const SERVER = fileURLToPath(new URL('../../runtime/egress/cluster/server.ts', import.meta.url))
const POD = { uid: 'pod-1', addresses: ['127.0.0.1'] }

/** The committed environment of production, with a model resource, and the identity of the fake of Entra. */
function environmentOn({ identity: { clientId, tenantId } }: Azure['settings']): Environment {
  const value = JSON.parse(environmentText('prod')) as Loose
  value['sizes'].egressProxy.credentials = PROXY_SIZE.container
  const { azure } = value['infra']
  Object.assign(azure, { modelHost: MODELS, tenantId })
  azure.identities.egressProxy = { clientId }
  value['models'] = { copilot: { names: ['gpt-fake'] }, foundry: { names: ['gpt-fake', 'gpt-other'] } }
  const loaded = loadEnvironment('prod', JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

/** What the tree gives the service, and both containers of the egress proxy. */
function rendered(environment: Environment) {
  const tree = aTree(environment)
  const { models } = readConfig(apiEnv(environment), { home: '/home/a', cwd: '/home/a' })
  const policy = objectIn(tree, 'ConfigMap', 'agentweaver-policy')['data']['egress.yaml'] as string
  const pod = objectIn(tree, 'Deployment', 'agentweaver-egress-proxy')['spec'].template.spec
  const envOf = (container: string): Record<string, string> => {
    const found = pod.containers.find(({ name }: Loose) => name === container)
    return Object.fromEntries(found.env.map(({ name, value }: Loose) => [name, value]))
  }
  return {
    models,
    policy,
    rules: createNetworkRules(loadEgressPolicy(policy)),
    env: { proxy: envOf('egress-proxy'), broker: envOf('egress-credentials') },
  }
}

type Answer = (authorization: string) => ModelReply

/** A server that accepts what Azure accepts: a token of Entra for its API, of the identity that has the role. */
async function startAzureOpenAi({ entra, authority, settings }: Azure, answer: Answer) {
  const keys = createLocalJWKSet(entra.jwks)
  const isAllowed = (token: string) =>
    jwtVerify(token, keys, { issuer: entra.issuer, audience: AUDIENCE }).then(
      ({ payload }) => payload['appid'] === settings.identity.clientId,
      () => false,
    )
  const server = await startModelServer({
    respond: async ({ headers }) => {
      const authorization = String(headers['authorization'])
      const allowed = await isAllowed(authorization.replace(/^Bearer /, ''))
      return allowed
        ? answer(authorization)
        : { status: 401, body: { error: { code: 'PermissionDenied', message: 'no role' } } }
    },
  })
  const port = Number(new URL(server.origin).port)
  const front = await startTlsFront(authority.serverFor(MODELS, OTHER), port)
  onTestFinished(async () => {
    front.close()
    await server.close()
  })
  return { ...server, port: front.port }
}

export interface FoundryOptions {
  readonly tokenSeconds?: number
  readonly answer?: Answer
  /** The model server of a run, as a service that an attacker has taken over names it. */
  readonly routeOf?: RouteOf
}

/** The servers of Azure under their names, and what the tree has for the service and the proxy. */
export async function startAzureSide({
  tokenSeconds,
  answer,
}: Pick<FoundryOptions, 'tokenSeconds' | 'answer'> = {}) {
  const issued: string[] = []
  const azure = await startAzure({
    subject: SUBJECT,
    ...(tokenSeconds !== undefined && { tokenSeconds }),
    onToken: async (token) => void issued.push(token),
  })
  const service = await startAzureOpenAi(azure, answer ?? (() => ({ text: 'Hello.' })))
  const names = await startNameProxy(
    new Map([
      [LOGIN, azure.entra.port],
      [MODELS, service.port],
      [OTHER, service.port],
    ]),
  )
  onTestFinished(() => names.close())
  const environment = environmentOn(azure.settings)
  return { azure, issued, service, names, environment, ...rendered(environment) }
}

type AzureSide = Awaited<ReturnType<typeof startAzureSide>>

interface ReplicaPlace {
  readonly controlUrl: string
  /** For the socket and the certificates. */
  readonly folder: string
  /** Files with the tokens of the two containers. */
  readonly tokenFile: string
  readonly credentialsTokenFile: string
}

/** Both processes of a replica of the egress proxy, with the variables that the tree gives its containers. */
export async function startFoundryReplica({ azure, names, env }: AzureSide, place: ReplicaPlace) {
  const caFile = join(place.folder, 'ca.pem')
  writeFileSync(caFile, azure.authority.certificate)
  const common = {
    AGENTWEAVER_EGRESS_CONTROL_URL: place.controlUrl,
    AGENTWEAVER_EGRESS_UPSTREAM_PROXY: names.url,
    AGENTWEAVER_EGRESS_BROKER_SOCKET: join(place.folder, 'broker'),
    NODE_EXTRA_CA_CERTS: caFile,
  }
  const port = await freePort('127.0.0.1')
  const broker = await startRole(['credentials'], {
    ...env.broker,
    ...common,
    AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: place.credentialsTokenFile,
    AZURE_FEDERATED_TOKEN_FILE: azure.tokenFile,
  })
  const proxy = await startRole([], {
    ...env.proxy,
    ...common,
    AGENTWEAVER_EGRESS_CONTROL_TOKEN_FILE: place.tokenFile,
    AGENTWEAVER_EGRESS_PORT: String(port),
  })
  return { caFile, broker, proxy, port }
}

/** A replica of the egress proxy, the control port of the API, and the servers of Azure under their names. */
export async function startFoundry({ routeOf, ...options }: FoundryOptions = {}) {
  const azureSide = await startAzureSide(options)
  const { models, rules } = azureSide
  const rig = await deploymentRig([443])
  const ofAgent: RouteOf = ({ agentSpec }) => modelRouteOf(RequestedAgent.parse(agentSpec), models)
  const control = await startControl({ ...rig, rules, routeOf: routeOf ?? ofAgent })
  const replica = await startFoundryReplica(azureSide, { ...rig, controlUrl: control.url })
  return { ...azureSide, ...rig, ...replica }
}

export type Foundry = Awaited<ReturnType<typeof startFoundry>>

/** One process of the proxy, which has a lease. */
async function startRole(args: string[], env: Record<string, string>) {
  const healthPort = await freePort('127.0.0.1')
  const { child, said } = spawnRole(args, { ...env, AGENTWEAVER_EGRESS_HEALTH_PORT: String(healthPort) })
  const isReady = () =>
    fetch(`http://127.0.0.1:${healthPort}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until('the process has a lease', async () => {
    if (child.exitCode !== null) throw new Error(said())
    return isReady()
  })
  return { child, pid: child.pid ?? 0, said }
}

export function spawnRole(args: string[], env: Record<string, string>) {
  const child: ChildProcess = spawn(process.execPath, [SERVER, ...args], {
    env: { ...COMPILE_CACHE, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString('utf8')
  })
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return { child, exited, said: () => said }
}

/** A run with an open network, and a function that sends a request as its agent. */
export async function givenFoundryRun(
  { store, keys, port }: Pick<Foundry, 'store' | 'keys' | 'port'>,
  patch: SandboxSettingsPatch = {},
  pod = POD,
) {
  const settings = SandboxSettings.parse({ network_enabled: false, ...patch })
  const agentSpec: RequestedAgent = { kind: 'foundry', model: 'gpt-fake' }
  const runId = await givenRun(store, { settings, state: 'running', agentSpec })
  await store.transaction((tx) => tx.changeRun(runId, { generation: 1 }))
  await store.openNetwork({ runId, generation: 1, kind: 'agent', pod })
  const token = (caller: 'agent-host' | 'commands' = 'agent-host') => tokenFor({ keys, runId, caller })
  const ask = async ({
    path = '/model/v1/chat/completions',
    model = 'gpt-fake',
    tokens = 50,
    as,
  }: Ask = {}) => {
    const sent = request({
      ...{ port, path, method: 'POST', agent: false },
      headers: { authorization: `Bearer ${as ?? (await token())}`, 'content-type': 'application/json' },
    })
    sent.end(JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }], max_tokens: tokens }))
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, text: await textOf(response) }
  }
  return { runId, token, ask }
}

interface Ask {
  readonly path?: string
  readonly model?: string
  readonly tokens?: number
  /** The token of the request. @default the one of the agent of this run */
  readonly as?: string
}
