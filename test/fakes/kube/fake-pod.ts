import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { promisify } from 'node:util'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { IDENTITY_AUDIENCE } from '../../../contracts/configure.ts'
import type { HostEvent } from '../../../contracts/events.ts'
import { AGENT_HOST_PORT } from '../../../contracts/ports.ts'
import { AGENT_HOST_ROUTES, LAST_EVENT_ID_HEADER } from '../../../contracts/routes.ts'
import { AsyncQueue } from '../../../runtime/kit/async-queue.ts'
import type { FakeKubeApi } from '../kube-api.ts'

const ISSUER = 'https://kubernetes.default.svc.cluster.local'

const ANSWERED: readonly string[] = [
  AGENT_HOST_ROUTES.identity,
  AGENT_HOST_ROUTES.healthz,
  AGENT_HOST_ROUTES.configure,
  AGENT_HOST_ROUTES.events,
  AGENT_HOST_ROUTES.decisions,
  AGENT_HOST_ROUTES.egress,
]
const HEALTH = {
  state: 'ready',
  isolation: {
    backend: 'kubernetes-sandbox-claim',
    isRealIsolation: true,
    enforcesEgress: true,
    shell: 'bash',
    reason: 'a pod of a test',
  },
}

type PodOnTheWire = {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly uid: string }
  readonly spec: { readonly serviceAccountName: string }
}

/** A fake pod as the API sees it: an address that proves its identity, accepts a configuration, and streams events. */
export async function startFakePod(fake: FakeKubeApi, pods: string) {
  const pair = await generateKeyPair('ES256')
  fake.documents.set('/.well-known/openid-configuration', { issuer: ISSUER })
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'cluster', alg: 'ES256' }
  fake.documents.set('/openid/v1/jwks', { keys: [jwk] })
  const ip = `127.${randomInt(2, 250)}.${randomInt(1, 250)}.${randomInt(1, 250)}`
  const received: string[] = []
  const bearers: string[] = []
  const bodies = new Map<string, Record<string, unknown>>()
  let health: object = HEALTH
  const silent = new Set<string>()
  const outbox = startOutbox()

  /** A token of the cluster. */
  const sign = (subject: string, audience: string, claims: object = {}): Promise<string> =>
    new SignJWT({ 'kubernetes.io': claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'cluster' })
      .setIssuer(ISSUER)
      .setAudience(audience)
      .setSubject(subject)
      .setIssuedAt()
      .setExpirationTime('10m')
      .sign(pair.privateKey)

  async function identity(): Promise<object> {
    const [pod] = fake.store.list(pods) as unknown as PodOnTheWire[]
    if (!pod) throw new Error('there is no pod to be')
    const { metadata, spec } = pod
    const account = spec.serviceAccountName
    const subject = `system:serviceaccount:${metadata.namespace}:${account}`
    const token = await sign(subject, IDENTITY_AUDIENCE, {
      namespace: metadata.namespace,
      pod: { name: metadata.name, uid: metadata.uid },
      serviceaccount: { name: account },
    })
    return { token }
  }

  async function answer(path: string, request: IncomingMessage): Promise<object> {
    if (path === AGENT_HOST_ROUTES.identity) return identity()
    if (path === AGENT_HOST_ROUTES.healthz) return health
    const pieces: Uint8Array[] = []
    for await (const piece of request) pieces.push(piece as Uint8Array)
    const body = JSON.parse(Buffer.concat(pieces).toString('utf8') || '{}')
    bodies.set(path, body)
    if (path === AGENT_HOST_ROUTES.decisions) return outbox.acknowledge(body.ackedThrough)
    return { configured: true, runId: body.runId }
  }

  const server = createServer((request, response) => {
    const path = request.url ?? ''
    received.push(path)
    if (request.headers.authorization !== undefined) bearers.push(request.headers.authorization)
    if (silent.has(path) || !ANSWERED.includes(path)) return
    if (path === AGENT_HOST_ROUTES.events) {
      void outbox.stream(request, response)
      return
    }
    answer(path, request).then(
      (body) => {
        const text = JSON.stringify(body)
        response
          .writeHead(200, { 'content-type': 'application/json', 'content-length': text.length })
          .end(text)
      },
      (error: Error) => response.destroy(error),
    )
  })
  // Only the other side ends a connection.
  server.keepAliveTimeout = 0
  server.listen(AGENT_HOST_PORT, ip)
  await once(server, 'listening')
  return {
    ip,
    received,
    /** Every received `Authorization` header. */
    bearers,
    /** The last body that each path received. */
    bodies,
    sign,
    /** Sets the health response for all later requests. */
    describe(answer: object): void {
      health = answer
    },
    /** Emits events. Until they are acknowledged, a new reader from an earlier sequence receives them again. */
    say: outbox.say,
    /** The last sequence of each acknowledgement. */
    acknowledged: outbox.acknowledged,
    /** Accepts requests on this path and never responds. */
    ignore: (path: string) => void silent.add(path),
    /** How many connections to it are open. */
    connections: () => promisify(server.getConnections.bind(server))(),
    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Behaves like AgentHost's outbox: it keeps events until they are acknowledged, and then deletes them. */
function startOutbox() {
  const frames: string[] = []
  const acknowledged: number[] = []
  const followers = new Set<AsyncQueue<string>>()
  return {
    acknowledged,
    say(...events: readonly HostEvent[]): void {
      for (const event of events) {
        const sequence = frames.length + 1
        const envelope = { sequence, at: new Date().toISOString(), event }
        frames.push(`id: ${sequence}\nevent: ${event.type}\ndata: ${JSON.stringify(envelope)}\n\n`)
        for (const follower of followers) follower.push(frames.at(-1) ?? '')
      }
    },
    acknowledge(through: number): object {
      acknowledged.push(through)
      return { accepted: [], unknown: [], conflicting: [] }
    },
    async stream(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const after = Number(request.headers[LAST_EVENT_ID_HEADER] ?? 0)
      if (after < Math.max(0, ...acknowledged)) {
        response.writeHead(410, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ error: { code: 'outbox_overrun', message: 'they are gone' } }))
        return
      }
      const follower = new AsyncQueue<string>()
      for (const frame of frames.slice(after)) follower.push(frame)
      followers.add(follower)
      request.socket.once('close', () => follower.end())
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      for await (const frame of follower) response.write(frame)
      followers.delete(follower)
    },
  }
}
