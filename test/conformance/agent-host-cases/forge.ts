import { createHash, createHmac, type KeyObject, sign } from 'node:crypto'
import type { TicketKeys } from './host.ts'

export interface TicketFor {
  readonly instanceId: string
  readonly runId: string
  readonly body: string
}

/** What an attacker changes about a ticket. Undefined members are left out of it altogether. */
export interface Forgery {
  readonly header?: Readonly<Record<string, unknown>>
  readonly claims?: Readonly<Record<string, unknown>>
  /** Another key of the same kind. */
  readonly key?: KeyObject
  /** An HMAC in place of a signature. */
  readonly hmac?: { readonly hash: 'sha256' | 'sha384' | 'sha512'; readonly secret: Uint8Array | string }
  /** What becomes of the three parts in the end. */
  readonly rewrite?: (header: string, claims: string, signature: string) => string
}

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
export const nowSeconds = (): number => Math.floor(Date.now() / 1000)
export const encode = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

/** A ticket as the API signs it, but for what the forgery changes; without one it is genuine. */
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
