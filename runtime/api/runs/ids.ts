import { createHash, randomBytes } from 'node:crypto'
import { CLAIM_PREFIX } from '../../../contracts/claim.ts'
import type { SandboxKind } from '../../../contracts/names.ts'

/** A UUIDv7 without dashes: 48 bits of time, then 74 random ones, so that ids sort by when they were made. */
export function timeOrderedId(prefix: string, now: Date): string {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(now.getTime(), 0, 6)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  return `${prefix}_${bytes.toString('hex')}`
}

/** Name of a claim: over the whole run id, so that no two runs collide, and new with every generation. */
export function claimName(kind: SandboxKind, runId: string, generation: number): string {
  const digest = createHash('sha256').update(`${runId}#${generation}`).digest('hex')
  return `${CLAIM_PREFIX[kind]}${digest.slice(0, 40)}`
}
