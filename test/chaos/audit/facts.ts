import type { AuditRecord, AuditVerification } from '../../../contracts/audit.ts'
import type { RunEnvelope } from '../../../contracts/events.ts'
import type { SentCommand, SentDecision } from '../people/person.ts'
import type { Connection } from '../people/reader.ts'
import type { Script } from '../plan/shapes.ts'

export type Finding = {
  readonly check: string
  /** Absent if it is not about one run. */
  readonly run?: string
  readonly message: string
}

export type ApprovalFact = { readonly requestId: string; readonly callId: string; readonly state: string }

/** The outside view of one run at the end of the round. */
export type RunFacts = {
  readonly id: string
  readonly index: number
  readonly shape: string
  readonly script: Script
  /** No person of the round decides. */
  readonly isLeft: boolean
  readonly hasCancelled: boolean
  /** When the round was over, before runs that were left waiting were cancelled. */
  readonly state: string
  readonly waitingFor?: string
  /** At the same time: requests that a person can decide. */
  readonly openRequests: number
  readonly failureCode?: string
  readonly failureMessage?: string
  /** From the API, page by page. */
  readonly events: readonly RunEnvelope[]
  /** From the database. */
  readonly storedSequences: readonly number[]
  /** For each reader, its connections in order. */
  readonly readers: readonly (readonly Connection[])[]
  readonly approvals: readonly ApprovalFact[]
  readonly decisions: readonly SentDecision[]
  readonly turns: readonly { readonly id: string; readonly prompt: string }[]
  readonly sentTurns: readonly { readonly prompt: string; readonly ids: readonly string[] }[]
  readonly commandIds: readonly string[]
  readonly sentCommands: readonly SentCommand[]
  /** Names of the files that executions of its commands have created; undefined if they cannot be seen. */
  readonly marks: readonly string[] | undefined
}

export type RoundFacts = {
  readonly runs: readonly RunFacts[]
  /** How many runs the database has for each requested one, by index. */
  readonly runsByIndex: Readonly<Record<string, number>>
  readonly requested: readonly number[]
  readonly verification: AuditVerification | undefined
  readonly records: readonly AuditRecord[]
  readonly processes: readonly string[]
  readonly folders: readonly string[]
  readonly files: readonly string[]
  readonly claims: readonly string[]
  readonly clusterObjects: readonly string[]
  /** Processes that ended by themselves, and stops that took too long. */
  readonly problems: readonly string[]
}
