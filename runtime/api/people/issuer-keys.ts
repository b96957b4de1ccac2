import { createRemoteJWKSet, type JWTVerifyGetKey } from 'jose'
import * as z from 'zod'
import { messageOf, SandboxError } from '../../kit/errors.ts'

const TIMEOUT_MS = 5_000
const MAX_DISCOVERY_BYTES = 262_144
/** The discovery document is read again after this time. */
const DISCOVERY_MAX_AGE_MS = 3_600_000
/** Keys that the issuer has withdrawn are accepted for as long. */
const KEYS_MAX_AGE_MS = 600_000
/** After a failed read of the discovery document. */
const PAUSE_MS = 5_000

const Discovery = z.looseObject({ issuer: z.string(), jwks_uri: z.url({ protocol: /^https?$/ }) })

type Options = {
  readonly issuer: string
  readonly now: () => Date
  /** An unknown key id makes the keys be read again at most this often, so that bad tokens cannot flood the issuer. */
  readonly cooldownMs: number
}

/** The keys of an OpenID Connect issuer. They are read at the first token, and again when a token names an unknown key. */
export function createIssuerKeys({ issuer, now, cooldownMs }: Options): () => Promise<JWTVerifyGetKey> {
  let known: { readonly uri: string; readonly keys: JWTVerifyGetKey; readonly readAt: number } | undefined
  let failure: { readonly error: SandboxError; readonly at: number } | undefined
  let reading: Promise<JWTVerifyGetKey> | undefined

  async function read(): Promise<JWTVerifyGetKey> {
    const at = now().getTime()
    try {
      const uri = await discover(issuer)
      if (known?.uri !== uri) {
        const options = {
          timeoutDuration: TIMEOUT_MS,
          cooldownDuration: cooldownMs,
          cacheMaxAge: KEYS_MAX_AGE_MS,
        }
        known = { uri, keys: createRemoteJWKSet(new URL(uri), options), readAt: at }
      } else known = { ...known, readAt: at }
      failure = undefined
      return known.keys
    } catch (error) {
      failure = { error: unreachable(issuer, error), at }
      if (known) return known.keys
      throw failure.error
    }
  }

  return async () => {
    const at = now().getTime()
    if (known && at - known.readAt < DISCOVERY_MAX_AGE_MS) return known.keys
    if (failure && at - failure.at < PAUSE_MS) {
      if (known) return known.keys
      throw failure.error
    }
    reading ??= read().finally(() => {
      reading = undefined
    })
    return reading
  }
}

export const unreachable = (issuer: string, cause: unknown): SandboxError =>
  new SandboxError(
    'unavailable',
    `The keys of the issuer ${issuer} cannot be read, so no access token can be verified: ${messageOf(cause)}. API keys work.`,
    { cause },
  )

async function discover(issuer: string): Promise<string> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const answer = await fetch(url, {
    redirect: 'error',
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (!answer.ok) throw new Error(`${url} returned ${answer.status}`)
  const document = Discovery.parse(JSON.parse(await readText(answer)))
  if (document.issuer !== issuer) throw new Error(`${url} names another issuer: ${document.issuer}`)
  const isEncrypted = document.jwks_uri.startsWith('https:')
  if (!isEncrypted && issuer.startsWith('https:')) throw new Error(`${url} names keys without TLS`)
  return document.jwks_uri
}

async function readText(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length
    if (bytes > MAX_DISCOVERY_BYTES) throw new Error('the discovery document is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
