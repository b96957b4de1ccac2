import * as z from 'zod'
import { ErrorCode } from '../../contracts/errors.ts'
import { Isolation } from '../../contracts/exec.ts'
import { SandboxSettings } from '../../contracts/policy.ts'

/** JSON that the store keeps for its callers and does not interpret. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/**
 * The states of a run. The public states of the API have the same names, but are a separate list: a stored run must stay
 * readable if the API renames a state.
 */
export const RunStates = z.enum([
  'waiting_upload',
  'queued',
  'pending_capacity',
  'starting',
  'running',
  'waiting',
  'suspending',
  'suspended',
  'ending',
  'succeeded',
  'failed',
  'cancelled',
])
export const Workspaces = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('path'),
    path: z.string(),
    mode: z.enum(['isolated', 'in-place']).optional(),
  }),
  z.object({ kind: z.literal('upload'), settings: z.string().optional() }),
  z.object({ kind: z.literal('empty') }),
  /** `repository`: the URL from which the files come, if the first run with them cloned it. */
  z.object({ kind: z.literal('run'), runId: z.string(), repository: z.string().optional() }),
  z.object({
    kind: z.literal('git'),
    url: z.string(),
    ref: z.string().optional(),
    depth: z.int().optional(),
    settings: z.string().optional(),
    /** Set when the repository is cloned. */
    commit: z.string().optional(),
  }),
])
export const RunAgent = z.object({ kind: z.string(), model: z.string().optional() })
export const RunLabels = z.record(z.string(), z.string())
/** Defaults fill in the settings that an older release did not store; settings that do not exist any more are dropped. */
export const RunSettings = z.object(SandboxSettings.shape)
export const RunSandbox = z.object({
  name: z.string(),
  isolation: z.object(Isolation.shape),
})
export const RunFailure = z.object({ code: ErrorCode, message: z.string() })
export const Outcome = z.object({
  outcome: z.enum(['succeeded', 'failed']),
  summary: z.string().exactOptional(),
})
export const Waiting = z.object({
  for: z.enum(['approval', 'question', 'turn', 'resume']),
  since: z.string(),
})
/** How a run is to end. The first reason stands. */
export const RunEnding = z.discriminatedUnion('state', [
  z.object({ state: z.literal('succeeded'), summary: z.string().exactOptional() }),
  z.object({ state: z.literal('failed'), code: ErrorCode, message: z.string() }),
  z.object({ state: z.literal('outcome-failed'), summary: z.string().exactOptional() }),
  z.object({ state: z.literal('cancelled'), by: z.string() }),
])
export type RunEnding = Readonly<z.infer<typeof RunEnding>>
export const SavedCheckpoint = z.looseObject({
  sequence: z.int(),
  afterTurn: z.int().exactOptional(),
  turnId: z.string().exactOptional(),
  carriedCalls: z.array(z.string()).exactOptional(),
  openCalls: z.array(z.string()).exactOptional(),
  egressDigest: z.string().exactOptional(),
})
/** The run from whose checkpoint a run began, the parts that were copied, and the last event that they include. */
export const Origin = z.object({
  runId: z.string(),
  checkpointAt: z.string(),
  copied: z.array(z.enum(['workspace', 'session'])),
  sequence: z.int(),
})
/** Hosts that people allowed to a run, beyond its settings. */
export const AllowedHosts = z.array(
  z.object({ host: z.string(), reason: z.string(), by: z.string(), at: z.string() }),
)
/** The setup of a run, in the sandbox that began it. It is over when `endedAt` is set, and does not begin again then. */
export const RunSetup = z.object({
  generation: z.int(),
  startedAt: z.string(),
  endedAt: z.string().exactOptional(),
})
export type RunSetup = Readonly<z.infer<typeof RunSetup>>

/** What the sandbox of this run may push: one commit of another run to one branch. */
export const PushGrant = z.object({
  /** The run whose result is pushed, and whose list of destinations counts. */
  runId: z.string(),
  kind: z.enum(['agent', 'command']),
  ref: z.string(),
  commit: z.string(),
})
export const CarriedCalls = z.array(z.string())
/** A kind of use that an older release did not count is 0. */
export const Usage = z.object({
  steps: z.number().default(0),
  model_requests: z.number().default(0),
  tokens: z.number().default(0),
  event_bytes: z.number().default(0),
  wall_seconds: z.number().default(0),
})

export const TurnStates = z.enum(['queued', 'sent', 'ended'])
export const TurnEnds = z.object({
  state: z.enum(['completed', 'failed', 'cancelled']),
  code: ErrorCode.exactOptional(),
  message: z.string().exactOptional(),
})

export const CallStates = z.enum(['open', 'released', 'refused', 'ended'])
/** The decision about a call. `pending` waits for a person; every other outcome is final. */
export const StoredDecision = z.object({
  callId: z.string(),
  outcome: z.enum(['release', 'denied', 'expired', 'superseded', 'policyDenied', 'answer', 'pending']),
  until: z.string().optional(),
  reason: z.string().optional(),
  /** The answer to a question. */
  value: z.string().optional(),
})
export type StoredDecision = Readonly<z.infer<typeof StoredDecision>>
export const Summary = z.object({ request: z.string(), result: z.string().exactOptional() })

export const CommandStates = z.enum(['running', 'ended'])
export const ClaimStates = z.enum(['requested', 'bound', 'released'])
export const ApprovalKinds = z.enum(['shell', 'tool', 'question'])
export const ApprovalStates = z.enum(['pending', 'approved', 'denied', 'expired', 'superseded', 'answered'])
export const ApprovalScopes = z.enum(['once', 'run'])
export const RunKinds = z.enum(['agent', 'command'])
/** How a checkpoint stores the workspace: a list of the files and where their contents are, or one tar archive. */
export const WorkspaceForms = z.enum(['manifest', 'archive'])
export const UserCredentialKinds = z.enum(['github', 'git', 'openai-compatible', 'registry'])
export const Roles = z.enum(['user', 'auditor', 'approver', 'operator'])
export const RestrictionKinds = z.enum(['run', 'owner', 'all'])
export const RestrictionLevels = z.enum(['normal', 'read-only', 'no-network', 'frozen'])
export const FolderOrigins = z.enum(['first_run', 'trust'])
/** How a person or a program determined the task or the files of a run. `source`: contributed to the run from whose checkpoint it began. */
export const Contributions = z.enum(['start', 'upload', 'turn', 'command', 'file', 'answer', 'source'])
