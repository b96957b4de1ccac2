import { createHash, createHmac, type KeyObject, sign } from 'node:crypto'
import type { JWK } from 'jose'

export interface TicketKeys {
  readonly kid: string
  readonly privateKey: KeyObject
  /** Replaces the keys that AgentHost trusts. Undefined if a test cannot change them. */
  readonly publish?: (keys: readonly JWK[]) => Promise<void>
}

export interface TicketFor {
  readonly instanceId: string
  readonly runId: string
  readonly body: string
}

/** Changes to a valid ticket. Undefined claims are removed. */
export interface Forgery {
  readonly header?: Readonly<Record<string, unknown>>
  readonly claims?: Readonly<Record<string, unknown>>
  /** Another key of the same type. */
  readonly key?: KeyObject
  /** An HMAC instead of a signature. */
  readonly hmac?: { readonly hash: 'sha256' | 'sha384' | 'sha512'; readonly secret: Uint8Array | string }
  /** Rewrites the three encoded parts. */
  readonly rewrite?: (header: string, claims: string, signature: string) => string
}

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
export const nowSeconds = (): number => Math.floor(Date.now() / 1000)
export const encode = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

/** A ticket as the API signs it, with the changes of the forgery. Without changes it is valid. */
export function forge(
  { kid, privateKey }: Pick<TicketKeys, 'kid' | 'privateKey'>,
  { instanceId, runId, body }: TicketFor,
  forgery: Forgery = {},
): string {
  const iat = nowSeconds()
  const genuine = { aud: instanceId, sub: runId, iat, exp: iat + 60, body_sha256: sha256(body) }
  const header = encode({ alg: 'EdDSA', kid, ...forgery.header })
  const claims = encode({ ...genuine, ...forgery.claims })
  const input = `${header}.${claims}`
  const signature = forgery.hmac
    ? createHmac(forgery.hmac.hash, forgery.hmac.secret).update(input).digest('base64url')
    : sign(null, Buffer.from(input), forgery.key ?? privateKey).toString('base64url')
  return forgery.rewrite?.(header, claims, signature) ?? `${input}.${signature}`
}
