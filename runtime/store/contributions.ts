import type * as z from 'zod'
import type { Contributions } from './columns.ts'

/** A person or a program that determined the task or the files of a run. */
export interface ContributionRow {
  readonly runId: string
  /** Owner of the credential. */
  readonly person: string
  /** The API key of the request. Absent with an access token. */
  readonly keyId?: string
  /** The first contribution of this person with this credential. */
  readonly how: z.infer<typeof Contributions>
  readonly at: string
}

export interface ContributionTransaction {
  /** Changes nothing if the person has contributed with the same credential before. */
  insertContribution(row: ContributionRow): Promise<void>
  /** Oldest first. */
  listContributions(runId: string): Promise<ContributionRow[]>
}
