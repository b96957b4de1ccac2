import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createFaults, type Fault } from './kube/faults.ts'
import { createObjectStore, type Draft, mergePatch, type Stored } from './kube/object-store.ts'
import { createWatches } from './kube/watches.ts'

export type LoggedRequest = {
  readonly verb: string
  readonly plural: string
  readonly name: string
  /** Arrival time on the clock of `performance.now()`. */
  readonly atMs: number
}

type Target = {
  /** Path of the collection: objects of one namespace are apart. */
  readonly collection: string
  readonly plural: string
  readonly name: string
  readonly query: URLSearchParams
}

type Answer = { readonly status: number; readonly body: unknown }

const failure = (code: number, reason: string, message: string): Answer => ({
  status: code,
  body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message },
})
const notFound = (name: string) => failure(404, 'NotFound', `"${name}" not found`)
const conflict = (message: string) => failure(409, 'Conflict', message)

/**
 * A fake API server over HTTP: list, watch, get, create, patch and delete of any namespaced kind, and a log of the
 * requests. It passes the same conformance cases as the real API server (`test/conformance/kube-api.ts`), and can fail
 * in ways that a real API server cannot be forced to.
 */
export async function startFakeKubeApi() {
  const store = createObjectStore()
  const watches = createWatches(store)
  const faults = createFaults()
  const documents = new Map<string, unknown>()
  const remembered = new Map<string, Stored | undefined>()
  const log: LoggedRequest[] = []
  const urls: string[] = []
  let token: string | undefined

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => response.destroy(error as Error))
  })
  server.keepAliveTimeout = 60_000

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://kube')
    urls.push(url.pathname + url.search)
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`)
      return write(response, failure(401, 'Unauthorized', 'Unauthorized'))
    const document = documents.get(url.pathname)
    if (document !== undefined) {
      log.push({ verb: 'get', plural: url.pathname, name: '', atMs: performance.now() })
      return carryOut(response, faults.take('get', url.pathname), () => ({ status: 200, body: document }))
    }
    const target = targetOf(url)
    const verb = verbOf(request, target)
    log.push({ verb, plural: target.plural, name: target.name, atMs: performance.now() })
    const fault = faults.take(verb, target.plural)
    if (verb === 'watch' && !fault) return watches.serve(target.collection, response, target.query)
    const body = await readBody(request)
    await carryOut(response, fault, () => answer(verb, target, body))
  }

  function find({ collection, name, query }: Target): Stored | undefined {
    const isCached = query.get('resourceVersion') === '0' && remembered.has(name)
    return isCached ? remembered.get(name) : store.get(collection, name)
  }

  function answer(verb: string, target: Target, body: unknown): Answer {
    const { collection, name } = target
    const known = find(target)
    if (verb === 'list') return list(target)
    if (verb === 'create') return create(collection, body as Draft)
    if (!known) return notFound(name)
    if (verb === 'get') return { status: 200, body: known }
    if (verb === 'patch') return patch(collection, known, body)
    return remove(collection, known, body)
  }

  function list({ collection, query }: Target): Answer {
    const all = store.list(collection)
    const start = Number(query.get('continue') || 0)
    const end = start + Number(query.get('limit') || all.length)
    const metadata = { resourceVersion: String(store.version), continue: end < all.length ? String(end) : '' }
    return { status: 200, body: { kind: 'List', metadata, items: all.slice(start, end) } }
  }

  function create(collection: string, draft: Draft): Answer {
    const { name } = draft.metadata
    if (store.get(collection, name)) return failure(409, 'AlreadyExists', `"${name}" already exists`)
    const { resourceVersion: _version, uid: _uid, ...metadata } = draft.metadata
    const generation = 1
    return {
      status: 201,
      body: store.put(collection, { ...draft, metadata: { ...metadata, name, generation } }),
    }
  }

  function patch(collection: string, known: Stored, body: unknown): Answer {
    const { metadata } = (body ?? {}) as { metadata?: { uid?: string } }
    if (metadata?.uid !== undefined && metadata.uid !== known.metadata.uid)
      return failure(422, 'Invalid', 'metadata.uid: Invalid value: field is immutable')
    return { status: 200, body: store.put(collection, mergePatch(known, body) as Stored) }
  }

  function remove(collection: string, known: Stored, body: unknown): Answer {
    const { preconditions, propagationPolicy } = (body ?? {}) as {
      preconditions?: { uid?: string }
      propagationPolicy?: string
    }
    if (preconditions?.uid !== undefined && preconditions.uid !== known.metadata.uid)
      return conflict('Precondition failed: UID in precondition is another')
    if (propagationPolicy === 'Foreground') {
      const finalizers = ['foregroundDeletion']
      const metadata = { ...known.metadata, finalizers, deletionTimestamp: new Date().toISOString() }
      return { status: 200, body: store.put(collection, { ...known, metadata }) }
    }
    store.remove(collection, known.metadata.name)
    return { status: 200, body: { kind: 'Status', status: 'Success' } }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    store,
    watches,
    faults,
    log,
    /** Path and query of every request. */
    urls,
    /** Documents that are no objects, by path: the issuer's keys. */
    documents,
    /**
     * Stale objects by name, as an API server with an outdated cache returns them for requests with resource version 0.
     * Undefined: the cache does not know the object yet.
     */
    remembered,
    /** From now on, only requests with this bearer token are accepted. */
    requireToken(value: string): void {
      token = value
    },
    count: (verb: string, plural?: string): number =>
      log.filter((entry) => entry.verb === verb && (plural === undefined || entry.plural === plural)).length,
    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export type FakeKubeApi = Awaited<ReturnType<typeof startFakeKubeApi>>

function targetOf(url: URL): Target {
  const match = /^(\/apis?\/.+?\/namespaces\/[^/]+\/([^/]+))(?:\/([^/]+))?$/.exec(url.pathname)
  if (!match) throw new Error(`the fake serves no ${url.pathname}`)
  const [, collection = '', plural = '', name = ''] = match
  return { collection, plural, name: decodeURIComponent(name), query: url.searchParams }
}

function verbOf({ method }: IncomingMessage, { name, query }: Target): string {
  if (method === 'GET') return name ? 'get' : query.get('watch') ? 'watch' : 'list'
  return { POST: 'create', PATCH: 'patch', DELETE: 'delete' }[method ?? ''] ?? 'unknown'
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const pieces: Uint8Array[] = []
  for await (const piece of request) pieces.push(piece as Uint8Array)
  return pieces.length === 0 ? undefined : JSON.parse(Buffer.concat(pieces).toString('utf8'))
}

async function carryOut(
  response: ServerResponse,
  fault: Fault | undefined,
  work: () => Answer,
): Promise<void> {
  if (!fault) return write(response, work())
  if (fault.kind === 'status') return refuse(response, fault)
  if (fault.kind === 'slow') await new Promise((resolve) => setTimeout(resolve, fault.ms))
  if (fault.kind === 'slow') return write(response, work())
  const isCarriedOut = fault.kind === 'cut' || fault.after === true
  const answer = isCarriedOut ? work() : undefined
  if (fault.kind === 'reset') response.socket?.resetAndDestroy()
  if (fault.kind === 'cut') cut(response, JSON.stringify(answer?.body))
}

function refuse(response: ServerResponse, fault: Extract<Fault, { kind: 'status' }>): void {
  const { status, retryAfterSeconds, reason = '', message = 'planned by the test' } = fault
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds))
  write(response, failure(status, reason, message))
}

function cut(response: ServerResponse, text: string): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.write(text.slice(0, text.length / 2), () => response.destroy())
}

function write(response: ServerResponse, { status, body }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
