import { createHash } from 'node:crypto'
import { v7 } from 'uuid'
import { CLAIM_PREFIX } from '../../../contracts/claim.ts'
import type { SandboxKind } from '../../../contracts/names.ts'

/** A UUIDv7 without dashes: ids sort by the time when they were made. Within a millisecond, their order is random. */
export const timeOrderedId = (prefix: string, now: Date): string =>
  `${prefix}_${v7({ msecs: now.getTime() }).replaceAll('-', '')}`

/** Name of a claim: over the whole run id, so that no two runs collide, and new with every generation. */
export function claimName(kind: SandboxKind, runId: string, generation: number): string {
  const digest = createHash('sha256').update(`${runId}#${generation}`).digest('hex')
  return `${CLAIM_PREFIX[kind]}${digest.slice(0, 40)}`
}
