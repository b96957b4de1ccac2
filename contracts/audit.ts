import * as z from 'zod'
import { RunId } from './api.ts'

/** How the chain that belongs to no run is named where a run's id would stand. */
export const DEPLOYMENT_CHAIN = 'deployment'

export const AUDIT_LIMITS = { maxPage: 1000, defaultPage: 100, maxProblems: 100 } as const

/**
 * `intent`: an action was decided, before it starts. `outcome`: how it ended. `file.written`: how a write through the
 * file API ended. `decision`: who decided a request for approval. `seal`: the final head of a run's chain.
 */
export const AuditKind = z.enum([
  'intent',
  'outcome',
  'file.written',
  'decision',
  'policy.changed',
  'key.created',
  'seal',
])
export type AuditKind = z.infer<typeof AuditKind>

/** Where a chain ends. Its MAC cannot be computed from the records without the key. */
export const AuditHead = z.object({ count: z.int().nonnegative(), mac: z.string() })
export type AuditHead = z.infer<typeof AuditHead>

/** One audit record. Every field is under its MAC, so a new field needs a new `version`. */
export const AuditRecord = z.strictObject({
  version: z.literal(1),
  kind: AuditKind,
  /** Empty for what concerns the deployment and no run. */
  runId: z.string(),
  sequence: z.int().positive(),
  at: z.string(),
  /** Joins an intent, its decision and its outcome. */
  callId: z.string(),
  /** `agent:KIND`, `person:OWNER` or `agentweaver`. */
  actor: z.string(),
  tool: z.string(),
  /** HMAC over the canonical form of the parameters, which are not stored. */
  paramsHash: z.string().optional(),
  policyVersion: z.string(),
  decision: z.string().optional(),
  reasons: z.array(z.string()).optional(),
  /** Request id of the approval that was asked for. */
  approval: z.string().optional(),
  durationMs: z.number().optional(),
  exitCode: z.number().optional(),
  bytes: z.number().optional(),
  outcome: z.string().optional(),
  /** In a record of kind `seal`: the final head of a run's chain. */
  sealed: AuditHead.extend({ runId: z.string() }).optional(),
  keyId: z.string(),
})
export type AuditRecord = z.infer<typeof AuditRecord>

/** A record with its MAC, as the API returns it and the export writes it. */
export const AuditEntry = AuditRecord.extend({ mac: z.string() })
export type AuditEntry = z.infer<typeof AuditEntry>
export const AuditPage = z.object({ items: z.array(AuditEntry), next: z.string().optional() })
export type AuditPage = z.infer<typeof AuditPage>

/** The id of a run, or the chain that belongs to no run. */
export const AuditChain = z.union([RunId, z.literal(DEPLOYMENT_CHAIN)])

/**
 * `unsealed`: the run has ended and the deployment's chain has no seal of it. `unknownRun`: there are records, and
 * neither a run nor a seal of that name.
 */
export const AuditProblemKind = z.enum([
  'dropped',
  'reordered',
  'edited',
  'truncated',
  'duplicated',
  'unknownKey',
  'unsealed',
  'unknownRun',
])

export const AuditProblem = z.object({
  /** A run's id, or `deployment`. */
  chain: z.string(),
  problem: AuditProblemKind,
  /** The first sequence that does not hold. */
  at: z.int(),
})
export type AuditProblem = z.infer<typeof AuditProblem>

/** What a verification found. It is sent again and again as it goes on; `isComplete` marks the last one. */
export const AuditVerification = z.object({
  isComplete: z.boolean(),
  ok: z.boolean(),
  chains: z.int(),
  records: z.int(),
  /** At most 100 of them are listed. */
  problems: z.array(AuditProblem),
  problemCount: z.int(),
  /** The verified head of the deployment's chain. A copy kept elsewhere shows later whether the chain was cut. */
  head: AuditHead.optional(),
})
export type AuditVerification = z.infer<typeof AuditVerification>
