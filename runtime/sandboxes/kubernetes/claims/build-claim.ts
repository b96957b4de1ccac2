import { CLAIM, CLAIM_TTL_SECONDS_AFTER_FINISHED } from '../../../../contracts/claim.ts'
import { CLAIM_NONCE_ANNOTATION, DEPLOYMENT_LABEL, KIND_LABEL } from '../../../../contracts/labels.ts'
import type { SandboxKind } from '../../../../contracts/names.ts'

export type ClaimRequestParts = {
  readonly name: string
  readonly namespace: string
  readonly pool: string
  readonly kind: SandboxKind
  readonly deploymentId: string
  /** Random, and in the store before the claim is posted: by it a claim is known as ours after a lost answer. */
  readonly nonce: string
  readonly shutdownTime: Date
}

/**
 * The claim as it is posted. `spec.env` and volumes are never set: the controller starts any claim that carries them
 * cold, and keeps their values in clear text. `lifecycle` always is: without it a claim lives for ever, with a TTL
 * alone as long as its pod runs.
 */
export function buildClaim(parts: ClaimRequestParts) {
  const { name, namespace, pool, kind, deploymentId, nonce, shutdownTime } = parts
  return {
    apiVersion: `${CLAIM.group}/${CLAIM.version}`,
    kind: CLAIM.kind,
    metadata: {
      name,
      namespace,
      labels: { [DEPLOYMENT_LABEL]: deploymentId, [KIND_LABEL]: kind },
      annotations: { [CLAIM_NONCE_ANNOTATION]: nonce },
    },
    spec: {
      warmPoolRef: { name: pool },
      lifecycle: {
        shutdownTime: toKubeTime(shutdownTime),
        ttlSecondsAfterFinished: CLAIM_TTL_SECONDS_AFTER_FINISHED,
        shutdownPolicy: 'Delete',
      },
    },
  } as const
}

/** An instant as `metav1.Time` spells it: whole seconds in UTC. */
export const toKubeTime = (time: Date): string => time.toISOString().replace(/\.\d+Z$/, 'Z')
