import type { Held } from '../../azure/held-credential.ts'
import { retryWithin } from '../../azure/retry-within.ts'
import type { WorkloadIdentity } from '../../azure/workload-identity.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { ProxyIdentity } from '../credentials/proxy-identity.ts'
import type { UpstreamProxy } from '../upstream-proxy.ts'

export interface AzureIdentityOptions {
  readonly identity: WorkloadIdentity
  /** Base URL of the Azure AI resource. */
  readonly upstream: string
  /** The company's proxy. */
  readonly proxy?: UpstreamProxy | undefined
  readonly log: Log
  readonly now?: () => number
  /** Time for all attempts to get one token, for which a request waits. @default 8 s */
  readonly budgetMs?: number
}

/** The OAuth scope of Azure AI tokens. */
const AZURE_AI_SCOPE = 'https://cognitiveservices.azure.com/.default'
const BUDGET_MS = 8_000

/** The Azure workload identity of the proxy. All runs share its token. */
export function createAzureIdentity(options: AzureIdentityOptions): ProxyIdentity {
  const { upstream, proxy, log, now = Date.now, budgetMs = BUDGET_MS } = options
  const identity = behind(options.identity, proxy)
  const read = async () => {
    // Loaded on demand: the SDK costs 10 MB, which a proxy without such runs does not need.
    const { readAccessToken } = await import('../../azure/azure-clients.ts')
    return retryWithin(budgetMs, (signal) => readAccessToken(identity, AZURE_AI_SCOPE, signal))
  }
  const token = new SharedToken({ read, now, log })
  return { upstream, fetch: () => token.fetch() }
}

/** The identity, which reaches all servers of Azure through the company's proxy if there is one. */
export const behind = (identity: WorkloadIdentity, proxy: UpstreamProxy | undefined): WorkloadIdentity => ({
  ...identity,
  ...(proxy && { proxy: addressOf(proxy) }),
})

const addressOf = ({ host, port }: UpstreamProxy) => ({
  host: `http://${host.includes(':') ? `[${host}]` : host}`,
  port,
})

/** A token is replaced this long before it expires. */
const RENEW_BEFORE_MS = 300_000
/** A request that begins with the token may take this long to reach the server. */
const LEAST_LEFT_MS = 30_000
/** An agent that repeats its request at once must not reach the token endpoint each time. */
const KEEP_FAILURE_MS = 5_000

interface SharedTokenOptions {
  readonly read: () => Promise<Held>
  readonly now: () => number
  readonly log: Log
}

/** Keeps a token in memory. One attempt at a time replaces it, and requests wait only if the current one is about to expire. */
class SharedToken {
  readonly #options: SharedTokenOptions
  #held: Held | undefined
  #reading: Promise<string> | undefined
  #failure: { readonly error: unknown; readonly atMs: number } | undefined

  constructor(options: SharedTokenOptions) {
    this.#options = options
  }

  async fetch(): Promise<string> {
    const now = this.#options.now()
    const held = this.#held
    const leftMs = (held?.expiresAtMs ?? 0) - now
    if (held && leftMs > RENEW_BEFORE_MS) return held.value
    const failure = this.#failure
    const mayRead = !failure || now - failure.atMs >= KEEP_FAILURE_MS
    if (this.#reading === undefined && mayRead) this.#reading = this.#read()
    if (held && leftMs > LEAST_LEFT_MS) {
      // The failure is logged, and the next request tries again.
      this.#reading?.catch(() => undefined)
      return held.value
    }
    if (this.#reading !== undefined) return this.#reading
    throw failure?.error
  }

  async #read(): Promise<string> {
    const { read, now, log } = this.#options
    try {
      this.#held = await read()
      this.#failure = undefined
      return this.#held.value
    } catch (error) {
      log.warn('the egress proxy got no token of its Azure identity', { error })
      this.#failure = { error, atMs: now() }
      const isOutage = error instanceof SandboxError && error.code === 'credential_unavailable'
      if (!isOutage) this.#held = undefined
      throw error
    } finally {
      this.#reading = undefined
    }
  }
}
