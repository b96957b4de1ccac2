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
  /** How long the server may keep one watch open; it is resumed where it ended. */
  readonly timeoutSeconds: number
  /** A watch without a single byte for so long is taken for dead: the server sends a bookmark every minute. */
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
  /** Reads an object as far as it is needed; throws on one that is no such object. */
  readonly parse: (value: unknown) => T
  readonly log: Log
  readonly timing?: WatchTiming
}

const PAGE = 500

/**
 * All objects of one collection, kept up to date by one watch that all share. It resumes from the last version that
 * it saw, lists again where the server has forgotten that, backs off while the server is away, and drops a
 * connection that says nothing. Readers are told after every change of the object they name, and read it then.
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

  /** Resolves when the collection was read for the first time. */
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

  /** Calls back after every change of one object, its disappearance too. The return value unsubscribes. */
  onChange(name: string, listener: () => void): () => void {
    return this.#cache.onChange(name, listener)
  }

  /** Calls back after every change with what was there before and what is now. The return value unsubscribes. */
  onEvery(listener: (before: T | undefined, after: T | undefined) => void): () => void {
    return this.#cache.onEvery(listener)
  }

  /** Milliseconds since the server last said anything of the collection; without end where it never did. */
  get silentMs(): number {
    return this.#aliveAt === undefined ? Number.POSITIVE_INFINITY : performance.now() - this.#aliveAt
  }

  /** When the server took up the watch that is open, on the clock of `performance.now()`; undefined while none is. */
  get servedSince(): number | undefined {
    return this.#servedSince
  }

  /** Somebody knows of a change that the watch should have shown: the connection is dropped and resumed. */
  suspect(why: string): void {
    this.#options.log.warn('a watch is resumed', { plural: this.#options.resource.plural, why })
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
      // A server that ends every watch at once must not be asked in a tight loop either.
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
      silence = setTimeout(() => current.abort(new Error(`nothing was heard for ${silenceMs} ms`)), silenceMs)
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
    // An object that cannot be read is as good as gone: what was known of it must not be relied on any longer.
    else this.#cache.remove(namedIn(object))
    // Only behind what was applied: a resume must never skip an event.
    this.#version = version ?? this.#version
  }

  /** One object that cannot be read must not end the watch of all others. */
  #parse(value: unknown): T | undefined {
    try {
      return this.#options.parse(value)
    } catch (error) {
      const { log, resource } = this.#options
      log.warn('an object could not be read', { plural: resource.plural, error: messageOf(error) })
      return undefined
    }
  }
}

const EXPIRED = 410

/** The server has forgotten the version: it says so by its answer, or in the stream. */
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
