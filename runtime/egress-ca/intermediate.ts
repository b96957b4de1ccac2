import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import type { EgressState } from '../../contracts/egress.ts'
import { issue } from './certificate.ts'
import type { RootAuthority } from './root.ts'

type EgressAuthority = NonNullable<EgressState['authorities']>[number]

const HOUR_MS = 3_600_000
const LIFE_MS = 24 * HOUR_MS
/** The proxy's certificates must not outlive the authority, so it is replaced in time. */
const RENEW_MS = 12 * HOUR_MS
/** Clocks of sandboxes and machines may differ. */
const BACKDATE_MS = HOUR_MS
const NAME = 'Agentweaver egress proxy'
/** Each sandbox may have other hosts. */
const MAX_KEPT = 4096

interface Issued {
  readonly authority: EgressAuthority
  readonly at: number
}

/** Issues the authorities with which proxies terminate TLS: one for each set of hosts. */
export class IntermediateAuthorities {
  readonly #root: RootAuthority
  readonly #now: () => number
  readonly #issued = new Map<string, Issued>()

  constructor(root: RootAuthority, now: () => number = Date.now) {
    this.#root = root
    this.#now = now
  }

  /** The current authority for these hosts, which may be wildcards. */
  for(hosts: readonly string[]): EgressAuthority {
    const names = [...new Set(hosts)].toSorted()
    const key = names.join(' ')
    const known = this.#issued.get(key)
    // The order of a map is the order of insertion: the first key is the one that was used least recently.
    this.#issued.delete(key)
    const isCurrent = known !== undefined && this.#now() - known.at < RENEW_MS
    const issued = isCurrent ? known : { authority: this.#issue(names), at: this.#now() }
    this.#issued.set(key, issued)
    if (this.#issued.size > MAX_KEPT) this.#issued.delete(this.#issued.keys().next().value as string)
    return issued.authority
  }

  #issue(names: readonly string[]): EgressAuthority {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const certificate = issue({
      subject: NAME,
      publicKey,
      signer: this.#root,
      use: { kind: 'intermediate', names },
      from: new Date(this.#now() - BACKDATE_MS),
      to: new Date(this.#now() + LIFE_MS),
    })
    return {
      digest: new X509Certificate(certificate).fingerprint256.replaceAll(':', '').toLowerCase(),
      certificate,
      key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    }
  }
}
