import { randomUUID } from 'node:crypto'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { expect, it, onTestFinished } from 'vitest'
import { IDENTITY_AUDIENCE } from '../../contracts/configure.ts'
import type { ModelRoute } from '../../contracts/egress.ts'
import { MODEL_BASE_PATH } from '../../contracts/egress.ts'
import { EGRESS_CONTROL_ROUTES, EGRESS_PROXY_ROUTES } from '../../contracts/routes.ts'
import { createSignIn } from '../../runtime/api/people/sign-in.ts'
import { LISTED_ENDPOINTS } from '../../runtime/egress/model/route.ts'
import { bearer, startApp } from '../api/harness.ts'
import { makeFixture, SAMPLES, sampleOf } from '../api/sample-requests.ts'
import { OIDC_AUDIENCE, startOidcServer } from '../fakes/oidc-server.ts'
import { until } from '../helpers/until.ts'
import { ask, deploymentRig, givenNetwork, startControl, startProxy, tokenFor } from './cluster-rig.ts'
import { HOST, servers } from './proxy-rig.ts'
import { startReplicaProcess } from './replica-process.ts'

const SUBJECT = 'system:serviceaccount:agentweaver-sandboxes:agentweaver-agent-host'

/** What the token of a pod of a sandbox claims, as the kubelet writes it. */
const identityClaims = (iss: string, aud: string = IDENTITY_AUDIENCE) => {
  const seconds = Math.floor(Date.now() / 1000)
  const pod = { namespace: 'agentweaver-sandboxes', pod: { name: 'sandbox', uid: 'pod-1' } }
  return { iss, sub: SUBJECT, aud: [aud], iat: seconds, exp: seconds + 600, 'kubernetes.io': pod }
}

async function identityToken(): Promise<string> {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
  const { kid = randomUUID() } = await exportJWK(publicKey)
  const token = new SignJWT(identityClaims('https://kubernetes.default.svc'))
  return token.setProtectedHeader({ alg: 'RS256', kid }).sign(privateKey)
}

/** The port for sandboxes: the status for an identity token, for commands, and for AgentHost. `PORT` is of the listed host. */
const PROXY: Readonly<Record<string, readonly [identity: number, commands: number, agentHost: number]>> = {
  [`CONNECT ${HOST}:PORT`]: [407, 200, 200],
  [`GET http://${HOST}:PORT/a`]: [407, 200, 200],
  'GET /healthz': [407, 400, 400],
  'GET /internal/egress/control': [407, 400, 400],
  'POST /model/v1/chat/completions': [401, 400, 200],
  'POST /model/v1/responses': [401, 400, 200],
  'POST /model/v1/embeddings': [401, 400, 200],
  'GET /model/v1/models': [401, 400, 200],
  'GET /model': [401, 400, 400],
}

/** The control port: the status for a replica of the proxy that sends nothing. Every token of a sandbox is refused. */
const CONTROL: Readonly<Record<string, number>> = {
  'GET /internal/egress/control': 400,
  'POST /internal/egress/events': 400,
  'POST /internal/egress/credentials': 403,
  'POST /internal/egress/checks': 403,
  'POST /internal/egress/verdicts': 403,
  'POST /internal/egress/reservations': 400,
  'POST /internal/egress/shares': 400,
}

async function cluster() {
  const site = await servers()
  const routeOf = (): ModelRoute => ({
    ...{ upstream: `http://${HOST}:${site.http}/v1`, header: 'authorization', models: ['m'] },
    ...{ addresses: ['127.0.0.1'], isPrivateAllowed: true },
  })
  const deployment = { ...(await deploymentRig([site.http], { http: 'allow' })), routeOf }
  const control = await startControl(deployment)
  const runId = await givenNetwork(deployment.store)
  const { keys } = deployment
  const tokens = {
    identity: await identityToken(),
    commands: await tokenFor({ keys, runId }),
    agentHost: await tokenFor({ keys, runId, caller: 'agent-host' }),
  }
  return { site, deployment, control, runId, tokens }
}

const bodyOf = (line: string): string => {
  if (!line.startsWith('POST')) return ''
  return JSON.stringify({
    model: 'm',
    ...(line.includes('chat') ? { messages: [{ role: 'user', content: 'hello' }] } : { input: 'hello' }),
  })
}

async function statusOf(port: number, line: string, token: string): Promise<number> {
  const [, target = ''] = line.split(' ')
  const host = target.startsWith('/') ? 'proxy' : target.replace('http://', '').replace('/a', '')
  const body = bodyOf(line)
  const head = [
    ...[`${line} HTTP/1.1`, `Host: ${host}`, 'Connection: close'],
    // A sandbox may send its token in any header.
    ...[`Proxy-Authorization: Bearer ${token}`, `Authorization: Bearer ${token}`],
    ...(body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${body.length}`]),
  ]
  // After a tunnel is open, the proxy refuses what is neither TLS nor HTTP.
  const rest = line.startsWith('CONNECT') ? 'no request\r\n\r\n' : ''
  const answer = await ask(port, `${head.join('\r\n')}\r\n\r\n${body}${rest}`)
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1])
}

it('gives each token of a sandbox at the port of the proxy only what it is for', async () => {
  const { site, deployment, control, tokens } = await cluster()
  const replica = await startProxy(deployment, control.url)
  await until('the replica has a lease', () => replica.lease.isHeld)

  const found: Record<string, number[]> = {}
  for (const row of Object.keys(PROXY)) {
    const line = row.replace('PORT', `${site.http}`)
    found[row] = []
    for (const token of [tokens.identity, tokens.commands, tokens.agentHost])
      found[row].push(await statusOf(replica.port, line, token))
  }

  expect(found).toEqual(PROXY)
  const endpoints = LISTED_ENDPOINTS.split(', ').map((one) => one.replace(' ', ` ${MODEL_BASE_PATH}`))
  expect(Object.keys(PROXY)).toEqual(expect.arrayContaining(endpoints))
})

/** The routes of the router: one line for each, with its methods. */
const routesIn = (printed: string): string[] =>
  [...printed.matchAll(/(\/\S+) \(([A-Z, ]+)\)/g)].flatMap(([, path, methods = '']) =>
    methods.split(', ').flatMap((method) => (method === 'HEAD' ? [] : [`${method} ${path}`])),
  )

it('refuses every token of a sandbox at every route of the control port', async () => {
  const { control, tokens } = await cluster()
  const { app } = control
  const statusOfCall = async (route: string, token: string) => {
    const [method, url] = route.split(' ') as ['GET' | 'POST', string]
    return (await app.inject({ method, url, headers: bearer(token), ...(method === 'POST' && { body: {} }) }))
      .statusCode
  }

  await app.ready()
  const routes = routesIn(app.printRoutes({ commonPrefix: false }))
  expect(routes.sort()).toEqual(Object.keys(CONTROL).sort())
  for (const path of Object.values(EGRESS_CONTROL_ROUTES))
    expect(routes.some((route) => route.endsWith(` ${path}`))).toBe(true)
  for (const route of routes) {
    for (const [name, token] of Object.entries({ ...tokens, 'for the API': 'sandbox-token' }))
      expect(await statusOfCall(route, token), `${name} at ${route}`).toBe(401)
    // Tokens that Kubernetes would sign for the service account of a sandbox.
    for (const token of ['sandbox-token-for-control', 'sandbox-token-for-credentials'])
      expect(await statusOfCall(route, token), `${token} at ${route}`).toBe(403)
    // The control: a replica gets past the guard.
    expect(await statusOfCall(route, 'proxy-token'), `a replica at ${route}`).toBe(CONTROL[route])
  }
})

it('shows at the port for health and metrics the same with every token, and nothing of a run', async () => {
  const { deployment, control, runId, tokens } = await cluster()
  const { healthPort } = await startReplicaProcess(deployment, control.url)
  const get = async (path: string, token?: string) => {
    const url = `http://127.0.0.1:${healthPort}${path}`
    const answer = await fetch(url, token === undefined ? {} : { headers: bearer(token) })
    return { status: answer.status, text: await answer.text() }
  }

  for (const path of Object.values(EGRESS_PROXY_ROUTES)) {
    const open = await get(path)
    expect(open.status, path).toBe(200)
    for (const token of Object.values(tokens)) {
      const { status, text } = await get(path, token)
      expect(status, path).toBe(200)
      for (const secret of [runId, HOST, 'pod-1', token]) expect(text).not.toContain(secret)
    }
  }
  expect((await get('/metrics')).text).toContain('agentweaver_egress_sandboxes 1')
  for (const path of Object.values(EGRESS_CONTROL_ROUTES)) expect((await get(path)).status, path).toBe(404)
})

it('refuses every token of a sandbox at every guarded route of the API, also if the cluster is the issuer of sign-in', async () => {
  const server = await startOidcServer({ people: {} })
  onTestFinished(() => server.close())
  const roles = new Map([['sandbox-users', 'user' as const]])
  const settings = {
    issuer: server.issuer,
    audience: OIDC_AUDIENCE,
    ownerClaims: ['sub'],
    rolesClaim: 'roles',
    roles,
  }
  const now = () => new Date()
  const harness = startApp({ signIn: createSignIn(settings, { now, cooldownMs: 0 }), now })
  const fixture = await makeFixture(harness)
  const { tokens } = await cluster()
  const claims = { ...identityClaims(server.issuer), roles: ['sandbox-users'] }
  const all = {
    ...tokens,
    identity: await server.sign(claims),
    plain: await server.sign(claims, { typ: 'JWT' }),
  }
  const statusOfCall = async (route: string, token: string) => {
    const { method, url } = sampleOf(route, fixture)
    return (await harness.app.inject({ method, url, headers: bearer(token) })).statusCode
  }

  for (const route of Object.keys(SAMPLES))
    for (const [name, token] of Object.entries(all))
      expect(await statusOfCall(route, token), `${name} at ${route}`).toBe(401)

  // The control: the same claims for the audience of the API.
  const person = await server.sign({ ...claims, aud: OIDC_AUDIENCE })
  expect(await statusOfCall('GET /api/runs', person)).toBe(200)
})
