import { CLAIM_NONCE_ANNOTATION } from '../../../../contracts/labels.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import type { KubeApi } from '../client/kube-api.ts'
import { isStatus } from '../client/kube-error.ts'
import { claimsIn } from '../client/resource.ts'
import type { buildClaim } from './build-claim.ts'
import { ClaimObject } from './claim-objects.ts'
import { isQuotaMessage } from './claim-reasons.ts'

type Claim = ReturnType<typeof buildClaim>

/**
 * Creates a claim. If the name is taken and the claim has our nonce, an earlier attempt succeeded and only its response was
 * lost. Throws `conflict` for a claim with another nonce.
 */
export async function postClaim(api: KubeApi, claim: Claim, signal: AbortSignal): Promise<ClaimObject> {
  const resource = claimsIn(claim.metadata.namespace)
  try {
    return ClaimObject.parse(await api.create(resource, claim, signal))
  } catch (error) {
    if (!isStatus(error, 409)) throw refusalOf(error)
  }
  const holder = await api.get(resource, claim.metadata.name, signal)
  if (holder !== undefined && isOurs(claim, holder)) return ClaimObject.parse(holder)
  throw new SandboxError(
    'conflict',
    `a claim ${claim.metadata.name} exists already and was not created by this request`,
  )
}

/** Whether the claim has our nonce and our spec, and is not being deleted. */
function isOurs(claim: Claim, holder: unknown): boolean {
  const parsed = ClaimObject.safeParse(holder)
  if (!parsed.success) return false
  const { metadata, spec } = parsed.data
  const isNonce =
    metadata.annotations?.[CLAIM_NONCE_ANNOTATION] === claim.metadata.annotations[CLAIM_NONCE_ANNOTATION]
  const asksMore = Boolean(spec.env?.length || spec.volumeClaimTemplates?.length)
  const isSame = spec.warmPoolRef.name === claim.spec.warmPoolRef.name && !asksMore
  return isNonce && isSame && metadata.deletionTimestamp === undefined
}

/** A quota may limit the number of claims. */
function refusalOf(error: unknown): unknown {
  if (!isStatus(error, 403) || !isQuotaMessage(error.message)) return error
  return new SandboxError(
    'agent_quota_exceeded',
    `the quota of the namespace is exhausted: ${messageOf(error)}`,
    {
      cause: error,
    },
  )
}
