import * as z from 'zod'
import { Run } from './api.ts'
import { ApiKey } from './api-keys.ts'
import { AuditEntry } from './audit.ts'
import { RunEnvelope } from './events.ts'
import { UserCredential } from './user-credentials.ts'

/** One line of an export: the owner, an API key, a credential without its value, a folder with settings in force, a run, an event or an audit record of a run. */
export const OwnerDataLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('owner'), owner: z.string(), at: z.iso.datetime() }),
  z.object({ type: z.literal('key'), key: ApiKey }),
  z.object({ type: z.literal('credential'), credential: UserCredential }),
  /** `settings`: the text of the settings file in force; absent if there was none. */
  z.object({
    type: z.literal('trusted_folder'),
    path: z.string(),
    settings: z.string().optional(),
    trustedAt: z.iso.datetime(),
  }),
  z.object({ type: z.literal('run'), run: Run }),
  z.object({ type: z.literal('event'), runId: z.string(), event: RunEnvelope }),
  z.object({ type: z.literal('audit'), record: AuditEntry }),
  /** The last line. Without it, the export broke off. */
  z.object({ type: z.literal('end'), runs: z.int(), events: z.int(), records: z.int() }),
])
export type OwnerDataLine = z.infer<typeof OwnerDataLine>

/** Progress of an erasure; the last line has `isComplete: true`. */
export const ErasedData = z.object({
  isComplete: z.boolean(),
  runs: z.int(),
  events: z.int(),
  /** Audit records of the erased runs. Their final heads stay in the deployment's chain. */
  records: z.int(),
  keys: z.int(),
  /**
   * When the vault of users' credentials has purged the last secret that this erasure deleted. Until then it keeps them, and no
   * caller can read them. Absent if it deleted none, and if the vault did not report the time.
   */
  secretsPurgedAt: z.iso.datetime().optional(),
  /**
   * The latest possible time of this purge. Present instead of `secretsPurgedAt` if the answer of the vault was lost, or if an earlier,
   * incomplete erasure deleted a secret.
   */
  secretsPurgedBy: z.iso.datetime().optional(),
})
export type ErasedData = z.infer<typeof ErasedData>
