import { createServer, type Server } from 'node:https'
import type { ModelRoute } from '../../contracts/egress.ts'
import type { UserCredentialKind } from '../../contracts/user-credentials.ts'
import {
  type CredentialCheck,
  createCredentialCheck,
} from '../../runtime/api/credentials/credential-check.ts'
import type { UserVault } from '../../runtime/api/credentials/user-vault.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'
import { until } from '../helpers/until.ts'
import { type Deployment, deploymentRig, startBroker, startControl, startProxy } from './cluster-rig.ts'
import { authority, HOST, listening, portOf } from './proxy-rig.ts'

export const ACCEPTED = 'glpat-thisOneIsKnownToTheServer0123'
export const WRONG = 'glpat-aTokenThatTheServerDoesNotKnow1'
export const ADA = { owner: 'ada', role: 'user' } as const
const OTHER_PROTOCOL = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'
const REFS = '/team/app.git/info/refs'

function secretIn(authorization = ''): string {
  const [, scheme = '', secret = ''] = /^(\S+) (.*)$/.exec(authorization) ?? []
  return scheme === 'Basic' ? Buffer.from(secret, 'base64').toString() : secret
}

/** A server that accepts one value under its names, as a bearer token or as a password. It records the requests. */
export async function startServer(names: string[] = [HOST]) {
  const got: string[] = []
  const state = { isPublic: false, hasOtherProtocol: false, onRequest: () => {} }
  const isOwn = (host = '') => names.some((name) => [name, `${name}:${portOf(server)}`].includes(host))
  const server: Server = await listening(
    createServer(authority.serverFor(...names), (request, response) => {
      state.onRequest()
      const shown = secretIn(request.headers.authorization)
      got.push(`${request.method} ${request.url} ${shown}`.trim())
      const isKnown = state.isPublic || shown === ACCEPTED || shown.endsWith(`:${ACCEPTED}`)
      const status = isKnown ? 200 : 401
      if (state.hasOtherProtocol) response.socket?.write(OTHER_PROTOCOL)
      else response.writeHead(isOwn(request.headers.host) ? status : 421).end('an answer')
    }),
  )
  return { got, state, port: portOf(server) }
}

interface Around {
  readonly port: number
  readonly vault?: UserVault
  readonly checkMs?: number
  /** Hosts of the ceiling. */
  readonly hosts?: readonly string[]
  /** The entries of the list permit this machine. @default true */
  readonly isLocalAllowed?: boolean
}

/** A deployment, and processes of its API. */
export async function givenDeployment({ port, vault, checkMs = 120_000, hosts, ...more }: Around) {
  const permitted = more.isLocalAllowed === false ? {} : { addresses: ['127.0.0.1'] }
  const rig: Deployment = await deploymentRig([port])
  const upstream = `https://${HOST}:${port}/v1`
  const routeTo = (): ModelRoute => ({
    ...{ upstream, header: 'authorization', models: ['check'], ...permitted },
  })
  const entry = {
    ...{ host: HOST, ports: [port], methods: ['GET'], phases: ['work' as const], caller: 'any' as const },
    ...{ ...permitted, requests: [{ methods: ['GET'], paths: [REFS] }] },
  }
  const places = {
    modelServer: upstream,
    hosts: { git: new Set([HOST]), registry: new Set<string>() },
  }
  /** A process of the API, to which replicas of the proxy may connect. */
  const startApi = async () => {
    let check: CredentialCheck | undefined
    const users = ownCredentials({
      ...{ store: rig.store, places, ...(vault && { vault }) },
      check: async (credential) => (await check?.(credential)) ?? { isChecked: true },
    })
    const control = await startControl({ ...rig, users: users.credentials, checkMs })
    check = createCredentialCheck({
      ...{ askServer: control.checks.askServer, routeTo, hosts, gitServer: () => entry },
    })
    const set = (value: string, kind: UserCredentialKind = 'git') =>
      users.service.set(ADA, kind, { value, ...(kind === 'git' && { host: HOST, user: 'oauth2' }) })
    return { ...control, users, set }
  }
  const startReplica = async (url: string, more: { isWithBroker?: boolean } = {}) => {
    const proxy = await startProxy(rig, url)
    await until('the proxy has a lease', () => proxy.lease.isHeld)
    if (more.isWithBroker === false) return
    const broker = await startBroker(rig, url, {
      ...{ roots: [authority.certificate], checkMs: 110_000 },
      resolve: async () => ['127.0.0.1'],
    })
    await until('the process with the credentials has a lease', () => broker.lease.isHeld)
  }
  return { rig, store: rig.store, startApi, startReplica }
}

export const ANONYMOUS = `GET ${REFS}?service=git-upload-pack`
