import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose'
import * as z from 'zod'
import type { KubeApi } from '../client/kube-api.ts'

const DISCOVERY = { path: '/.well-known/openid-configuration', mediaType: 'application/json' }
const KEYS = { path: '/openid/v1/jwks', mediaType: 'application/jwk-set+json' }
const READ_TIMEOUT_MS = 10_000
/** Limits refreshes, so that tokens with unknown key ids cannot flood the API server. */
const MIN_REFRESH_MS = 10_000
const CLOCK_TOLERANCE_SECONDS = 60

/** Algorithms of service account tokens. Symmetric ones and `none` are excluded on purpose. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'ES512', 'EdDSA']

const Discovery = z.object({ issuer: z.string().min(1) })
const Keys = z.object({
  keys: z
    .array(z.looseObject({ kty: z.enum(['RSA', 'EC', 'OKP']) }))
    .min(1)
    .max(64),
})

export type IssuerKeys = Awaited<ReturnType<typeof loadIssuerKeys>>

export type IssuerKeyOptions = {
  readonly api: KubeApi
  readonly signal: AbortSignal
  readonly clock: () => Date
  /** @default 10 s */
  readonly minRefreshMs?: number
}

/**
 * Reads the keys with which the cluster signs service account tokens, over TLS from the API server. Tokens are then
 * verified offline. An unknown key id triggers a new read, at most every `minRefreshMs`.
 */
export async function loadIssuerKeys({
  api,
  signal,
  clock,
  minRefreshMs = MIN_REFRESH_MS,
}: IssuerKeyOptions) {
  const { issuer } = Discovery.parse(await api.read(DISCOVERY, signal))
  let keys = createLocalJWKSet(await readKeys(api, signal))
  let readAt = performance.now()
  let reading: Promise<void> | undefined

  async function refresh(): Promise<void> {
    keys = createLocalJWKSet(await readKeys(api, AbortSignal.timeout(READ_TIMEOUT_MS)))
  }

  /** Shares one read among concurrent callers. Returns false if the last read was too recent. */
  async function refreshOnce(): Promise<boolean> {
    if (!reading && performance.now() - readAt < minRefreshMs) return false
    if (!reading) {
      readAt = performance.now()
      reading = refresh().finally(() => {
        reading = undefined
      })
    }
    await reading
    return true
  }

  const verifyOnce = async (token: string, audience: string): Promise<JWTPayload> => {
    const options = { issuer, audience, algorithms: ALGORITHMS, clockTolerance: CLOCK_TOLERANCE_SECONDS }
    const { payload } = await jwtVerify(token, keys, {
      ...options,
      currentDate: clock(),
      requiredClaims: ['exp', 'iat', 'sub', 'aud'],
    })
    return payload
  }

  return {
    issuer,
    /** Verifies a token of this cluster for this audience and returns its claims. */
    async verify(token: string, audience: string): Promise<JWTPayload> {
      try {
        return await verifyOnce(token, audience)
      } catch (error) {
        const isUnknown = error instanceof errors.JWKSNoMatchingKey
        if (!isUnknown || !(await refreshOnce())) throw error
        return verifyOnce(token, audience)
      }
    },
  }
}

async function readKeys(api: KubeApi, signal: AbortSignal): Promise<JSONWebKeySet> {
  return Keys.parse(await api.read(KEYS, signal))
}
