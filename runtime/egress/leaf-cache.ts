import { createPrivateKey, generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { EgressState } from '../../contracts/egress.ts'
import { issue } from '../egress-ca/certificate.ts'

/** An intermediate authority whose certificates the sandboxes trust. */
interface Authority {
  readonly certificate: string
  readonly name: string
  readonly key: KeyObject
  readonly endsAt: number
}

export interface LeafCacheOptions {
  readonly now: () => number
  /** @default 256 */
  readonly max?: number
}

interface Cached {
  readonly context: SecureContext
  readonly expiresAt: number
}

const MAX_LEAVES = 256
/** X.520. Clients read only the alternative name. */
const MAX_COMMON_NAME = 64
const VALID_MS = 24 * 60 * 60 * 1000
/** The clocks of a sandbox and of this process are the same. */
const BACKDATED_MS = 5 * 60 * 1000
/** A client that connects just before the end still sees a valid certificate. */
const RENEW_MS = 5 * 60 * 1000

type Authorities = NonNullable<EgressState['authorities']>

/** The certificates of the hosts whose TLS the proxy terminates. Their key exists only in this process. */
export class LeafCache {
  readonly #options: LeafCacheOptions
  readonly #key = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  readonly #keyPem = String(this.#key.privateKey.export({ type: 'pkcs8', format: 'pem' }))
  readonly #authorities = new Map<string, Authority>()
  /** The first one was used the longest time ago. */
  readonly #leaves = new Map<string, Cached>()

  constructor(options: LeafCacheOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#leaves.size
  }

  /** Takes over the authorities of a state. Those that are not listed issue nothing more. */
  setAuthorities(authorities: Authorities): void {
    const listed = new Map(authorities.map((one) => [one.digest, one]))
    for (const digest of this.#authorities.keys()) if (!listed.has(digest)) this.#authorities.delete(digest)
    for (const [digest, one] of listed) {
      if (this.#authorities.has(digest)) continue
      const authority = parseAuthority(one)
      if (authority) this.#authorities.set(digest, authority)
    }
  }

  /**
   * The certificate for an entry of the policy, whose host may be a wildcard. A name that a client sends is never part of
   * a certificate.
   */
  contextFor(digest: string, host: string): SecureContext | undefined {
    const authority = this.#authorities.get(digest)
    if (!authority) return undefined
    const key = `${digest} ${host}`
    const known = this.#leaves.get(key)
    this.#leaves.delete(key)
    const isFresh = known && known.expiresAt - RENEW_MS > this.#options.now()
    const leaf = isFresh ? known : this.#issue(authority, host)
    this.#leaves.set(key, leaf)
    const [oldest = ''] = this.#leaves.keys()
    if (this.#leaves.size > (this.#options.max ?? MAX_LEAVES)) this.#leaves.delete(oldest)
    return leaf.context
  }

  #issue({ certificate, name, key, endsAt }: Authority, host: string): Cached {
    const now = this.#options.now()
    const expiresAt = Math.min(now + VALID_MS, endsAt)
    const leaf = issue({
      subject: host.slice(0, MAX_COMMON_NAME),
      publicKey: this.#key.publicKey,
      signer: { name, key },
      use: { kind: 'server', names: [host] },
      from: new Date(now - BACKDATED_MS),
      to: new Date(expiresAt),
    })
    const context = createSecureContext({
      cert: `${leaf}${certificate}`,
      key: this.#keyPem,
      minVersion: 'TLSv1.2',
    })
    return { context, expiresAt }
  }
}

/** Undefined if it is malformed: its hosts are refused, and the hosts of other runs are still served. */
function parseAuthority({ certificate, key }: Authorities[number]): Authority | undefined {
  try {
    const parsed = new X509Certificate(certificate)
    const [, name = ''] = /^CN=(.*)$/m.exec(parsed.subject) ?? []
    return { certificate, name, key: createPrivateKey(key), endsAt: parsed.validToDate.getTime() }
  } catch {
    return undefined
  }
}
