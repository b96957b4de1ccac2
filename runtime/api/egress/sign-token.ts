import { SignJWT } from 'jose'
import type { EgressCaller, EgressPod } from '../../../contracts/egress.ts'
import { EGRESS_TOKEN } from '../../../contracts/egress-control.ts'
import type { DeploymentKeys } from '../keys/deployment-keys.ts'

export interface EgressTokenRequest {
  readonly runId: string
  readonly generation: number
  readonly caller: EgressCaller
  readonly pod: EgressPod
  readonly now: Date
}

/** Signs a token with which one caller of one pod identifies itself to the egress proxy. */
export function signEgressToken(
  key: DeploymentKeys['ticketKey'],
  { runId, generation, caller, pod, now }: EgressTokenRequest,
): Promise<string> {
  const issuedAt = Math.floor(now.getTime() / 1000)
  return new SignJWT({ generation, caller, pod })
    .setProtectedHeader({ alg: EGRESS_TOKEN.algorithm, kid: key.kid })
    .setAudience(EGRESS_TOKEN.audience)
    .setSubject(runId)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + EGRESS_TOKEN.lifetimeSeconds)
    .sign(key.privateKey)
}
