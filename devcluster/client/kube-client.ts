import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { type KubeObject, pathOf, type ResourcePath, urlOf } from './kube-object.ts'
import type { Connection } from './kubeconfig.ts'

/** A refusal by the API server, with the reason that it gives for programs. */
export class KubeApiError extends Error {
  override readonly name = 'KubeApiError'
  readonly status: number
  readonly reason: string
  constructor(status: number, body: string) {
    const { reason, message } = parseStatus(body)
    super(`${status} ${message}`)
    this.status = status
    this.reason = reason
  }
}

function parseStatus(body: string): { reason: string; message: string } {
  try {
    const { reason = '', message = body } = JSON.parse(body) as { reason?: string; message?: string }
    return { reason, message }
  } catch {
    return { reason: '', message: body }
  }
}

/**
 * Returns true for the only response after which a request is repeated. The API server has not processed it, because
 * the storage of its kind is not initialized: the kind is new, or etcd was unavailable. The duration depends on the
 * load of the machine.
 */
function isAskedAgain(error: unknown): boolean {
  return (
    error instanceof KubeApiError &&
    error.status === 429 &&
    error.message.includes('storage is (re)initializing')
  )
}

export interface RawRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly body?: unknown
  readonly contentType?: string
  readonly timeoutMs?: number
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: KubeObject
}

export interface DeleteOptions {
  readonly gracePeriodSeconds?: number
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan'
  readonly preconditions?: { readonly uid: string }
}

/** Only a request that hangs takes so long. On a busy machine, forty definitions at once need more than half a minute. */
const TIMEOUT_MS = 120_000
const ASK_AGAIN_MS = 50
const FIELD_MANAGER = 'agentweaver-cluster'
/** Enough for the twenty parallel claims of a benchmark plus the watches. */
const CONNECTIONS = 64

export type KubeClient = ReturnType<typeof createKubeClient>

/** A small typed client with the requests that the cluster and its test suites need. It never hides a response. */
export function createKubeClient(connection: Connection) {
  const { server, token, impersonate, ...tls } = connection
  const dispatcher = new Agent({ connect: tls, connections: CONNECTIONS, bodyTimeout: 0 })
  const headers = {
    ...(token ? { authorization: `Bearer ${token}` } : {}),
    ...(impersonate
      ? { 'impersonate-user': impersonate.user, 'impersonate-group': [...impersonate.groups] }
      : {}),
  }

  async function ask({ method, url, body, contentType }: RawRequest, signal: AbortSignal): Promise<string> {
    const response = await request(server + url, {
      method,
      dispatcher,
      headers: { ...headers, accept: 'application/json', 'content-type': contentType ?? 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      // Otherwise undici ends the connection behind each DELETE with a precondition.
      reset: false,
      signal,
    })
    const text = await response.body.text()
    if (response.statusCode >= 400) throw new KubeApiError(response.statusCode, text)
    return text
  }

  async function raw(question: RawRequest): Promise<string> {
    const signal = AbortSignal.timeout(question.timeoutMs ?? TIMEOUT_MS)
    for (;;) {
      try {
        return await ask(question, signal)
      } catch (error) {
        if (!isAskedAgain(error)) throw error
        await sleep(ASK_AGAIN_MS)
      }
    }
  }

  async function call<T = KubeObject>(question: RawRequest): Promise<T> {
    return JSON.parse(await raw(question)) as T
  }

  const query = (values: Record<string, string>) => `?${new URLSearchParams(values)}`

  return {
    connection,
    raw,
    get: (path: ResourcePath) => call({ method: 'GET', url: urlOf(path) }),
    async find(path: ResourcePath): Promise<KubeObject | undefined> {
      try {
        return await call({ method: 'GET', url: urlOf(path) })
      } catch (error) {
        if (error instanceof KubeApiError && error.status === 404) return undefined
        throw error
      }
    },
    list: (path: ResourcePath, labelSelector = '') =>
      call<KubeList>({ method: 'GET', url: urlOf(path) + query({ labelSelector }) }),
    create: (object: KubeObject, options: { dryRun?: 'All' } = {}) =>
      call({
        method: 'POST',
        url: urlOf({ ...pathOf(object), name: undefined }) + query({ fieldValidation: 'Strict', ...options }),
        body: object,
      }),
    /** Server-side apply with strict validation: creates or changes, and refuses fields that the kind does not have. */
    apply: (object: KubeObject, options: { dryRun?: 'All' } = {}) =>
      call({
        method: 'PATCH',
        url:
          urlOf(pathOf(object)) +
          query({ fieldManager: FIELD_MANAGER, force: 'true', fieldValidation: 'Strict', ...options }),
        body: object,
        contentType: 'application/apply-patch+yaml',
      }),
    mergePatch: (path: ResourcePath, body: unknown) =>
      call({ method: 'PATCH', url: urlOf(path), body, contentType: 'application/merge-patch+json' }),
    post: (path: ResourcePath, body: unknown) => call({ method: 'POST', url: urlOf(path), body }),
    delete: (path: ResourcePath, options: DeleteOptions = {}) =>
      call({ method: 'DELETE', url: urlOf(path), body: options }),
    /** Events from `resourceVersion` on, until the signal ends them; lines come as the server sends them. */
    async *watch(
      path: ResourcePath,
      resourceVersion: string,
      signal: AbortSignal,
    ): AsyncGenerator<WatchEvent> {
      const url = server + urlOf(path) + query({ watch: '1', allowWatchBookmarks: 'true', resourceVersion })
      const response = await request(url, { dispatcher, headers, signal })
      let rest = ''
      for await (const chunk of response.body.setEncoding('utf8')) {
        const lines = (rest + chunk).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) yield JSON.parse(line) as WatchEvent
      }
    },
    close: () => dispatcher.destroy(),
  }
}

export interface KubeList {
  readonly metadata: { readonly resourceVersion: string }
  readonly items: readonly KubeObject[]
}
