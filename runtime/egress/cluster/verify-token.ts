import { createLocalJWKSet, errors, type JWTVerifyGetKey, jwtVerify } from 'jose'
import {
  EGRESS_TOKEN,
  type EgressControlMessage,
  EgressTokenClaims,
} from '../../../contracts/egress-control.ts'

export type VerifiedToken =
  | { readonly ok: true; readonly claims: EgressTokenClaims }
  | { readonly ok: false; readonly reason: string }

/** Verifies the tokens of sandboxes with the public keys of the newest message. */
export class TokenVerifier {
  #keys: JWTVerifyGetKey | undefined

  use(keys: EgressControlMessage['keys']): void {
    this.#keys = createLocalJWKSet({ keys: [...keys] })
  }

  async verify(token: string, now = new Date()): Promise<VerifiedToken> {
    if (!this.#keys) return { ok: false, reason: 'no keys' }
    try {
      const { payload } = await jwtVerify(token, this.#keys, {
        algorithms: [EGRESS_TOKEN.algorithm],
        audience: EGRESS_TOKEN.audience,
        clockTolerance: EGRESS_TOKEN.leewaySeconds,
        maxTokenAge: EGRESS_TOKEN.lifetimeSeconds,
        currentDate: now,
        requiredClaims: ['exp', 'iat', 'sub', 'aud'],
      })
      const claims = EgressTokenClaims.safeParse(payload)
      if (!claims.success) return { ok: false, reason: 'a claim is malformed' }
      const { exp, iat } = claims.data
      if (exp - iat > EGRESS_TOKEN.lifetimeSeconds) return { ok: false, reason: 'its lifetime is too long' }
      return { ok: true, claims: claims.data }
    } catch (error) {
      return { ok: false, reason: error instanceof errors.JOSEError ? error.code : 'it cannot be verified' }
    }
  }
}
