import * as z from 'zod'
import { RunId } from './api.ts'

/** Stands for a run id in requests about the chain that belongs to no run. */
export const DEPLOYMENT_CHAIN = 'deployment'

export const AUDIT_LIMITS = { maxPage: 1000, defaultPage: 100, maxProblems: 100 } as const

/**
 * `intent`: an action was decided, before it starts. `outcome`: how it ended. `file.written`: how a write through the
 * file API ended. `decision`: who decided a request for approval. `egress.allowed`: who allowed a run one more host, and why.
 * `egress.anomaly`: what the egress proxy noticed. `egress.denied`: a connection that was refused. `restriction.changed`: who
 * restricted runs, how far, and why. `results.pushed`: who pushed the result of a run, to which branch, and its commits before
 * and after. `workspace.cloned`: the repository and the commit that a run began with. `key.created`,
 * `key.revoked`: who created or revoked which API key. `credential.set`, `credential.removed`: who set or removed which own
 * credential, never its value. `seal`: the final head of a run's chain. `run.erased`: who erased a run with its records, and
 * their final head. `data.exported`: who exported the data of an owner.
 */
export const AuditKind = z.enum([
  'intent',
  'outcome',
  'file.written',
  'decision',
  'policy.changed',
  'egress.allowed',
  'egress.anomaly',
  'egress.denied',
  'restriction.changed',
  'workspace.cloned',
  'results.pushed',
  'key.created',
  'key.revoked',
  'credential.set',
  'credential.removed',
  'seal',
  'run.erased',
  'data.exported',
])
export type AuditKind = z.infer<typeof AuditKind>

/** End of a chain. Its MAC can be computed only with the key. */
export const AuditHead = z.object({ count: z.int().nonnegative(), mac: z.string() })
export type AuditHead = z.infer<typeof AuditHead>

/** One audit record. The MAC covers every field, so adding a field needs a new `version`. */
export const AuditRecord = z.strictObject({
  version: z.literal(1),
  kind: AuditKind,
  /** Empty for records of the deployment. */
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
  /** In a record of kind `seal` or `run.erased`: the final head of a run's chain. */
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
 * `unsealed`: the run has ended, but the deployment's chain has no seal for it. `unknownRun`: records exist for a run
 * id that has neither a run nor a seal.
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
  /** The first sequence that fails verification. */
  at: z.int(),
})
export type AuditProblem = z.infer<typeof AuditProblem>

/** Result of a verification. Interim results are sent while it runs; the last one has `isComplete: true`. */
export const AuditVerification = z.object({
  isComplete: z.boolean(),
  ok: z.boolean(),
  chains: z.int(),
  records: z.int(),
  /** Lists at most 100 problems; `problemCount` counts all of them. */
  problems: z.array(AuditProblem),
  problemCount: z.int(),
  /** Verified head of the deployment's chain. Compare it with a copy kept elsewhere to detect a truncated chain. */
  head: AuditHead.optional(),
})
export type AuditVerification = z.infer<typeof AuditVerification>
