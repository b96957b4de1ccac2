import type { ApiKeyRow } from '../../store/service-rows.ts'

/** Why a key is not valid any more, in words for its holder; undefined for a valid key. */
export function keyProblem({ id, revokedAt, expiresAt }: ApiKeyRow, now: Date): string | undefined {
  if (revokedAt !== undefined) return `The API key ${id} was revoked at ${revokedAt}.`
  if (expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime())
    return `The API key ${id} expired at ${expiresAt}. Create another one with "agentweaver key create".`
  return undefined
}
