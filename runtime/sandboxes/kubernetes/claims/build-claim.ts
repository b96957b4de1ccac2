import { CLAIM, CLAIM_TTL_SECONDS_AFTER_FINISHED } from '../../../../contracts/claim.ts'
import { CLAIM_NONCE_ANNOTATION, DEPLOYMENT_LABEL, KIND_LABEL } from '../../../../contracts/labels.ts'
import type { SandboxKind } from '../../../../contracts/names.ts'

export type ClaimRequestParts = {
  readonly name: string
  readonly namespace: string
  readonly pool: string
  readonly kind: SandboxKind
  readonly deploymentId: string
  /** Random and stored before the claim is created. Identifies our claim if the API server's response was lost. */
  readonly nonce: string
  readonly shutdownTime: Date
}

/**
 * Builds the claim. `spec.env` and volumes are never set: the controller cold-starts such a claim and stores the values in
 * clear text. `lifecycle` is always set: without it a claim never expires, and with only a TTL it lives as long as its
 * pod.
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

/** Formats a time as `metav1.Time`: whole seconds in UTC. */
export const toKubeTime = (time: Date): string => time.toISOString().replace(/\.\d+Z$/, 'Z')
