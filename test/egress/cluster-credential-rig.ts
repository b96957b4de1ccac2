import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { onTestFinished } from 'vitest'
import type { EgressDestination } from '../../contracts/egress.ts'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { EgressRelay } from '../../runtime/runner/pod/egress-relay.ts'
import { PodNetwork } from '../../runtime/runner/pod/pod-network.ts'
import { GitServer } from '../fakes/git-server.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'
import { until } from '../helpers/until.ts'
import {
  CANARY,
  type Deployment,
  deploymentRig,
  givenNetwork,
  open,
  startBroker,
  startControl,
  startProxy,
  startRelay,
  tokenFor,
} from './cluster-rig.ts'
import { authority, HOST, listening, portOf, received, tlsOver } from './proxy-rig.ts'

export const ENTRY: Partial<EgressDestination> = {
  requests: [{ methods: ['GET', 'POST'], paths: ['/a/**'] }],
  authority: 'unsigned',
  credential: 'token',
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** `owner`: has set the canary as the credential of the git server. */
export async function rig(
  answer: Answer = (_request, response) => response.end('reached'),
  { entry = ENTRY, owner }: { readonly entry?: Partial<EgressDestination>; readonly owner?: string } = {},
) {
  const authorizations: (string | undefined)[] = []
  const server = await listening(
    createServer(authority.serverFor(HOST), (request, response) => {
      authorizations.push(request.headers.authorization)
      answer(request, response)
    }),
  )
  const operators = await deploymentRig([portOf(server)], entry)
  const deployment = owner === undefined ? operators : await withOwnCredential(operators, owner)
  const control = await startControl(deployment)
  const replica = await startProxy(deployment, control.url)
  const broker = await startBroker(deployment, control.url, { roots: [authority.certificate] })
  await until('both processes have a lease', () => replica.lease.isHeld && broker.lease.isHeld)
  const [root = ''] = control.trust.bundle.split(/(?<=END CERTIFICATE-----\n)/)
  const target = `${HOST}:${portOf(server)}`
  return { ...deployment, deployment, control, replica, broker, authorizations, root, target }
}

/** The same deployment, whose operator has no credential. */
async function withOwnCredential(deployment: Deployment, owner: string): Promise<Deployment> {
  const { store, keys } = deployment
  const places = { modelServer: undefined, hosts: { git: new Set([HOST]), registry: new Set<string>() } }
  const users = ownCredentials({ store, places })
  await users.service.set({ owner, role: 'user' }, 'git', { host: HOST, value: CANARY, user: 'oauth2' })
  const credentials = createRunCredentials(NO_CREDENTIALS, users.credentials, keys.derive('placeholder'))
  return { ...deployment, credentials }
}

export type Rig = Awaited<ReturnType<typeof rig>>

/** A run, its placeholder, and a function that sends a request as one of its commands. */
export async function givenRun({ store, keys, replica, credentials, root, target }: Rig) {
  const runId = await givenNetwork(store, { results: { push: 'allow' } })
  const token = await tokenFor({ keys, runId })
  const { relay, port } = await startRelay(`127.0.0.1:${replica.port}`)
  relay.use({ commandsToken: token })
  const placeholder =
    credentials.forRun({ id: runId, owner: 'alice' }, [ENTRY as EgressDestination]).placeholders[0]?.value ??
    ''
  const get = async (authorization = `Bearer ${placeholder}`, path = '/a/b') => {
    const { socket, head } = await open(port, target)
    if (!head.startsWith('HTTP/1.1 200')) return head
    const secure = await tlsOver(socket, { servername: HOST, ca: root })
    const { closed } = received(secure)
    secure.write(
      `GET ${path} HTTP/1.1\r\nHost: ${target}\r\nAuthorization: ${authorization}\r\nConnection: close\r\n\r\n`,
    )
    return (await closed).toString('latin1')
  }
  return { runId, token, placeholder, get }
}

/** A git server, and git with the variables of a command in a pod. */
export async function gitRig({ owner }: { readonly owner?: string } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-cluster-git-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const home = join(folder, 'home')
  for (const name of ['home', 'repositories']) mkdirSync(join(folder, name))
  const server = new GitServer(join(folder, 'repositories'), { authority, host: HOST, token: CANARY })
  await server.open('team/app')
  onTestFinished(() => server.close())
  const text = `{ preset: git, host: ${HOST}, ports: [${server.port}], mode: full, repositories: [team/app], credential: token, addresses: [127.0.0.1], why: the repository of the test }`
  const policy = loadEgressPolicy(
    `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent: []\n  command: [${text}]\n`,
  )
  const [entry] = allowlist(resolveEgress(policy, {}), 'command', 'proxy')
  if (!entry) throw new Error('the list has one entry')
  const all = await rig(undefined, { entry, ...(owner !== undefined && { owner }) })
  const { runId, token } = await givenRun(all)
  const ofRun = { id: runId, owner: owner ?? 'alice' }
  const { environment, placeholders } = all.credentials.forRun(ofRun, [entry])
  const variables: Record<string, string> = {}
  const through = async (replica: { readonly port: number }) => {
    const relay = new EgressRelay({ address: `127.0.0.1:${replica.port}`, log: silentLog, port: 0 })
    const port = await relay.listen()
    onTestFinished(() => relay.close())
    const network = new PodNetwork(relay, home)
    network.use({
      ...{ commandsToken: token, caBundle: all.control.trust.bundle },
      ...(environment && { environment }),
    })
    const proxy = `http://127.0.0.1:${port}`
    Object.assign(variables, network.environment({}), { HTTPS_PROXY: proxy, https_proxy: proxy })
  }
  await through(all.replica)
  const placeholder = placeholders[0]?.value ?? ''
  writeFileSync(join(home, 'control'), placeholder)
  const git = async (args: string[], cwd = '') => {
    const own = { PATH: process.env['PATH'], HOME: home, GIT_CONFIG_NOSYSTEM: '1', GIT_TERMINAL_PROMPT: '0' }
    const asked = args.map((arg) => arg.replaceAll('RUN', runId))
    const options = { cwd: join(home, cwd), env: { ...own, ...variables } }
    const { stdout, stderr } = await promisify(execFile)('git', asked, options)
    return stdout + stderr
  }
  const bare = join(folder, 'repositories/team/app.git')
  return { all: { ...all, runId, home, placeholder }, git, server, through, bare }
}
