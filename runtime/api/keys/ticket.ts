import { createHash } from 'node:crypto'
import { SignJWT } from 'jose'
import { TICKET } from '../../../contracts/configure.ts'
import type { DeploymentKeys } from './deployment-keys.ts'

/** Signs a ticket for one instance, one run and exactly these bytes, valid for a minute. */
export function signTicket(
  key: DeploymentKeys['ticketKey'],
  { instanceId, runId, body, now }: { instanceId: string; runId: string; body: Uint8Array; now: Date },
): Promise<string> {
  const issuedAt = Math.floor(now.getTime() / 1000)
  return new SignJWT({ body_sha256: createHash('sha256').update(body).digest('hex') })
    .setProtectedHeader({ alg: TICKET.algorithm, kid: key.kid })
    .setAudience(instanceId)
    .setSubject(runId)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + TICKET.lifetimeSeconds)
    .sign(key.privateKey)
}
