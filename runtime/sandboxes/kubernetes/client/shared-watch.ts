import { delay } from '../../../kit/deadline.ts'
import { messageOf } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { createBackOff } from './back-off.ts'
import type { KubeApi, WatchEvent } from './kube-api.ts'
import { isStatus, KubeError } from './kube-error.ts'
import type { KubeObject } from './kube-object.ts'
import { ObjectCache } from './object-cache.ts'
import type { Resource } from './resource.ts'

export interface WatchTiming {
  /** After this time the server ends a watch, which is then resumed. */
  readonly timeoutSeconds: number
  /** A watch without data for this long is restarted: the server sends a bookmark every minute. */
  readonly silenceMs: number
  readonly backOff: { readonly baseMs: number; readonly maxMs: number }
}

export const WATCH_DEFAULTS: WatchTiming = {
  timeoutSeconds: 300,
  silenceMs: 75_000,
  backOff: { baseMs: 50, maxMs: 10_000 },
}

export type SharedWatchOptions<T extends KubeObject> = {
  readonly api: KubeApi
  readonly resource: Resource
  /** Parses an object. Throws if it is invalid. */
  readonly parse: (value: unknown) => T
  readonly log: Log
  readonly timing?: WatchTiming
}

const PAGE = 500

/**
 * Keeps all objects of a collection up to date with one watch. It resumes from the last resource version, lists again if
 * that version has expired, backs off while the server is unavailable, and restarts a silent connection. Listeners are
 * called after each change and read the object themselves.
 */
export class SharedWatch<T extends KubeObject> {
  readonly #options: SharedWatchOptions<T>
  readonly #timing: WatchTiming
  readonly #cache: ObjectCache<T>
  readonly #closed = new AbortController()
  readonly #synced = Promise.withResolvers<void>()
  #running: Promise<void> | undefined
  #version: string | undefined
  #aliveAt: number | undefined
  #current: AbortController | undefined
  #servedSince: number | undefined
  #isRefused = false

  constructor(options: SharedWatchOptions<T>) {
    this.#options = options
    this.#timing = options.timing ?? WATCH_DEFAULTS
    this.#cache = new ObjectCache<T>()
    this.#synced.promise.catch(() => undefined)
  }

  /** Resolves after the first complete list. */
  async start(signal: AbortSignal): Promise<void> {
    this.#running ??= this.#run()
    const { promise, reject } = Promise.withResolvers<never>()
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    try {
      await Promise.race([this.#synced.promise, promise])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  get(name: string): T | undefined {
    return this.#cache.get(name)
  }

  list(): T[] {
    return this.#cache.list()
  }

  /** Calls back after every change of one object, including its deletion. The return value unsubscribes. */
  onChange(name: string, listener: () => void): () => void {
    return this.#cache.onChange(name, listener)
  }

  /** Calls back after every change with the old and the new object. The return value unsubscribes. */
  onEvery(listener: (before: T | undefined, after: T | undefined) => void): () => void {
    return this.#cache.onEvery(listener)
  }

  /** Milliseconds since the last data from the server; infinity if there was none. */
  get silentMs(): number {
    return this.#aliveAt === undefined ? Number.POSITIVE_INFINITY : performance.now() - this.#aliveAt
  }

  /** When the server started to serve the open watch (`performance.now()`); undefined while no watch is open. */
  get servedSince(): number | undefined {
    return this.#servedSince
  }

  /** Restarts the watch, because the caller knows of a change that it has not shown. */
  suspect(why: string): void {
    this.#options.log.warn('a watch is restarted', { plural: this.#options.resource.plural, why })
    this.#current?.abort(new Error(why))
  }

  async close(): Promise<void> {
    this.#closed.abort(new Error('the watch was closed'))
    this.#synced.reject(new Error('the watch was closed'))
    await this.#running
  }

  async #run(): Promise<void> {
    const waits = createBackOff(this.#timing.backOff)
    const { signal } = this.#closed
    while (!signal.aborted) {
      try {
        if (this.#version === undefined) await this.#list(signal)
        await this.#watch(signal, () => waits.reset())
      } catch (error) {
        this.#noteFailure(error)
      }
      // Also after a normal end: a server that ends every watch at once must not cause a tight loop.
      await delay(waits.next(), signal).catch(() => undefined)
    }
  }

  #noteFailure(error: unknown): void {
    if (this.#closed.signal.aborted) return
    if (isExpired(error)) this.#version = undefined
    this.#isRefused = isStatus(error, 401)
    const { log, resource } = this.#options
    log.info('a watch ended', { plural: resource.plural, why: messageOf(error) })
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { api, resource } = this.#options
    const found: T[] = []
    let next: string | undefined
    let version = ''
    do {
      const page = await api.list(resource, { limit: PAGE, continue: next }, signal)
      for (const item of page.items) {
        const object = this.#parse(item)
        if (object) found.push(object)
      }
      version = page.resourceVersion
      next = page.continue
    } while (next)
    this.#aliveAt = performance.now()
    this.#version = version
    this.#cache.replaceAll(found)
    this.#synced.resolve()
  }

  async #watch(closed: AbortSignal, onEvent: () => void): Promise<void> {
    const { api, resource } = this.#options
    const current = new AbortController()
    this.#current = current
    const signal = AbortSignal.any([closed, current.signal])
    const { timeoutSeconds, silenceMs } = this.#timing
    let silence: NodeJS.Timeout | undefined
    const listen = () => {
      clearTimeout(silence)
      silence = setTimeout(() => current.abort(new Error(`no data for ${silenceMs} ms`)), silenceMs)
    }
    const onBytes = () => {
      this.#aliveAt = performance.now()
      this.#servedSince ??= this.#aliveAt
      listen()
    }
    listen()
    try {
      const from = {
        resourceVersion: this.#version ?? '',
        timeoutSeconds,
        fresh: this.#isRefused,
        signal,
        onBytes,
      }
      for await (const event of api.watch(resource, from)) {
        this.#apply(event)
        onEvent()
      }
    } finally {
      clearTimeout(silence)
      this.#current = undefined
      this.#servedSince = undefined
    }
  }

  #apply({ type, object }: WatchEvent): void {
    if (type === 'ERROR') throw errorIn(object)
    const version = versionOf(object)
    if (type === 'BOOKMARK') {
      this.#version = version ?? this.#version
      return
    }
    const parsed = type === 'DELETED' ? undefined : this.#parse(object)
    if (parsed) this.#cache.put(parsed)
    // An object that cannot be parsed is removed, so that no reader relies on its old state.
    else this.#cache.remove(namedIn(object))
    // Set only after the event is applied, so that a resume never skips an event.
    this.#version = version ?? this.#version
  }

  /** An object that cannot be parsed must not end the watch. */
  #parse(value: unknown): T | undefined {
    try {
      return this.#options.parse(value)
    } catch (error) {
      const { log, resource } = this.#options
      log.warn('an object could not be parsed', { plural: resource.plural, error: messageOf(error) })
      return undefined
    }
  }
}

const EXPIRED = 410

/** The resource version has expired. The server reports it as a response or as an event in the stream. */
const isExpired = (error: unknown): boolean =>
  error instanceof KubeError && (error.status === EXPIRED || error.reason === 'Expired')

function errorIn(status: unknown): KubeError {
  const { code } = (status ?? {}) as { code?: unknown }
  return new KubeError(typeof code === 'number' ? code : 500, JSON.stringify(status ?? {}))
}

function namedIn(object: unknown): { name: string; uid: string } {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown; uid?: unknown } }
  return { name: String(metadata?.name), uid: String(metadata?.uid) }
}

function versionOf(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as { metadata?: { resourceVersion?: unknown } }
  return typeof metadata?.resourceVersion === 'string' ? metadata.resourceVersion : undefined
}
