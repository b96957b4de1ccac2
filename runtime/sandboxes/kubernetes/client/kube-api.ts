import type { KubeConnection } from './kube-connection.ts'
import { isStatus } from './kube-error.ts'
import { pathOf, type Resource } from './resource.ts'
import { createTransport, type StreamOptions, type TransportOptions } from './transport.ts'

export interface KubePage {
  readonly items: readonly unknown[]
  readonly resourceVersion: string
  /** Token of the next page; undefined on the last page. */
  readonly continue: string | undefined
}

/** One line of a watch. */
export interface WatchEvent {
  readonly type: string
  readonly object: unknown
}

export type WatchFrom = StreamOptions & {
  readonly resourceVersion: string
  readonly timeoutSeconds: number
}

type At = { readonly resource: Resource; readonly name: string }
export type DeleteOptions = { readonly uid: string; readonly propagation: 'Background' | 'Foreground' }

export type KubeApi = ReturnType<typeof createKubeApi>

/** The verbs that the provider needs. Objects are returned unparsed. */
export function createKubeApi(connection: KubeConnection, options?: TransportOptions) {
  const { ask, stream, close } = createTransport(connection, options)

  async function find(path: string, signal: AbortSignal): Promise<unknown> {
    try {
      return await ask({ method: 'GET', path }, signal)
    } catch (error) {
      if (isStatus(error, 404)) return undefined
      throw error
    }
  }

  return {
    /** Returns the object, or undefined on 404. */
    get: (resource: Resource, name: string, signal: AbortSignal): Promise<unknown> =>
      find(pathOf(resource, name), signal),

    /** Like `get`, but from the API server's cache, which may lag behind etcd. */
    getCached: (resource: Resource, name: string, signal: AbortSignal): Promise<unknown> =>
      find(`${pathOf(resource, name)}?resourceVersion=0`, signal),

    async list(
      resource: Resource,
      page: { limit: number; continue: string | undefined },
      signal: AbortSignal,
    ): Promise<KubePage> {
      const query = new URLSearchParams({ limit: String(page.limit) })
      if (page.continue !== undefined) query.set('continue', page.continue)
      return parsePage(await ask({ method: 'GET', path: `${pathOf(resource)}?${query}` }, signal))
    },

    /** With strict validation, unknown fields are rejected. By default the API server drops them silently. */
    create: (resource: Resource, body: unknown, signal: AbortSignal): Promise<unknown> =>
      ask({ method: 'POST', path: `${pathOf(resource)}?fieldValidation=Strict`, body }, signal),

    patch: ({ resource, name }: At, body: unknown, signal: AbortSignal): Promise<unknown> => {
      const path = `${pathOf(resource, name)}?fieldValidation=Strict`
      return ask({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json' }, signal)
    },

    /** Deletes exactly the object with this UID. Throws a 409 if a new object has its name. */
    delete: ({ resource, name }: At, { uid, propagation }: DeleteOptions, signal: AbortSignal) => {
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        preconditions: { uid },
        propagationPolicy: propagation,
      }
      return ask({ method: 'DELETE', path: pathOf(resource, name), body }, signal)
    },

    /** Reads any other JSON document of the API server. */
    read: (document: { path: string; mediaType: string }, signal: AbortSignal): Promise<unknown> =>
      ask({ method: 'GET', path: document.path, accept: document.mediaType }, signal),

    /** One watch request until its end. The caller resumes it. */
    async *watch(resource: Resource, from: WatchFrom): AsyncGenerator<WatchEvent> {
      const query = new URLSearchParams({
        watch: '1',
        allowWatchBookmarks: 'true',
        resourceVersion: from.resourceVersion,
        timeoutSeconds: String(from.timeoutSeconds),
      })
      for await (const event of stream(`${pathOf(resource)}?${query}`, from)) yield event as WatchEvent
    },

    close,
  }
}

function parsePage(value: unknown): KubePage {
  const { items, metadata } = (value ?? {}) as {
    items?: unknown
    metadata?: { resourceVersion?: unknown; continue?: unknown }
  }
  const { resourceVersion, continue: next } = metadata ?? {}
  if (!Array.isArray(items) || typeof resourceVersion !== 'string')
    throw new Error('the API server sent no list')
  return { items, resourceVersion, continue: typeof next === 'string' && next !== '' ? next : undefined }
}
