import * as z from 'zod'
import { RequestedAgent } from './agents.ts'
import { Budgets, BudgetUses } from './budgets.ts'
import { EgressDenied } from './egress.ts'
import { ErrorCode } from './errors.ts'
import { RunEnvelope, RunSource } from './events.ts'
import { ExecRequest, ExecResult, Isolation } from './exec.ts'
import { FileEntry } from './files.ts'
import { CommitId, GitWorkspace } from './git-source.ts'
import { SandboxSettingsPatch, SETTINGS_FILE } from './policy.ts'
import { Restriction } from './restrictions.ts'

/** `run_` or `sbx_` and a UUIDv7 without dashes, so that ids sort by time. */
export const RunId = z.string().regex(/^(?:run|sbx)_[0-9a-f]{32}$/)

/** `isolated` works on a copy and produces a branch; `in-place` edits the folder itself. */
export const FolderMode = z.enum(['isolated', 'in-place'])
export type FolderMode = z.infer<typeof FolderMode>
export const WorkspacePath = z
  .string()
  .regex(/^\/[^\0]*$/, 'must be absolute')
  .max(4096)

const PathWorkspace = z.strictObject({
  kind: z.literal('path'),
  path: WorkspacePath,
  /** Default: `isolated` for an agent run on a git repository, `in-place` for everything else. */
  mode: FolderMode.optional(),
})
const UploadedWorkspace = z.strictObject({
  kind: z.literal('upload'),
  /**
   * Text of the settings file for the uploaded workspace. Without it, the defaults apply. A settings file in the
   * archive is ignored. Responses omit this field.
   */
  settings: z.string().max(SETTINGS_FILE.maxBytes).optional(),
})
const EmptyWorkspace = z.strictObject({ kind: z.literal('empty') })
/** The files of the last checkpoint of one of the caller's runs or sandboxes. */
const WorkspaceOfRun = z.strictObject({ kind: z.literal('run'), runId: RunId })

export const WorkspaceSource = z.discriminatedUnion('kind', [
  PathWorkspace,
  UploadedWorkspace,
  EmptyWorkspace,
  WorkspaceOfRun,
  GitWorkspace,
])
export type WorkspaceSource = z.infer<typeof WorkspaceSource>

/** The workspace of a run, as the API describes it. */
const RunWorkspace = z.discriminatedUnion('kind', [
  PathWorkspace,
  UploadedWorkspace,
  EmptyWorkspace,
  /** `repository`: the URL that was cloned by the first run with these files. */
  WorkspaceOfRun.extend({ repository: z.string().optional() }),
  /** `commit`: the base of the run's diff. Absent until the repository is cloned. */
  GitWorkspace.extend({ commit: CommitId.optional() }),
])

const MAX_LABELS = 32

export const Labels = z
  .record(
    z.string().regex(/^[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?$/, 'must be of a-z, 0-9 and . _ / - inside'),
    z.string().max(256),
  )
  .refine((labels) => Object.keys(labels).length <= MAX_LABELS, `at most ${MAX_LABELS} labels`)
  .meta({ maxProperties: MAX_LABELS })

/** Settings for one run. Fields of `StartRun` are not repeated here. */
const RequestedPolicy = SandboxSettingsPatch.omit({ require_outcome: true, budgets: true })

export const StartRun = z.strictObject({
  task: z.string().min(1).max(262_144),
  workspace: WorkspaceSource,
  agent: RequestedAgent,
  /** Stricter settings for this run. Wider ones are not granted. */
  policy: RequestedPolicy.optional(),
  labels: Labels.optional(),
  /**
   * Whether the run fails if its last turn ended without `report_outcome`. Default: true for an agent with a model, and
   * false for a scripted agent, because its plan determines the report.
   */
  requireOutcome: z.boolean().optional(),
  /** Limits of this run. They must not exceed the limits of the settings. */
  budgets: Budgets.optional(),
  /** Keep the run open for further turns, until it is ended or was unused for the retention. */
  interactive: z.boolean().default(false),
})
export type StartRun = z.infer<typeof StartRun>
export type StartRunInput = z.input<typeof StartRun>

/** A new run that continues the conversation of another one, from its last checkpoint. It has the agent of that run. */
export const ForkRun = StartRun.omit({ agent: true, workspace: true }).extend({
  /**
   * Files that replace the files of the checkpoint. Required if the other run works on a folder of the service's
   * machine, because its checkpoints have no files.
   */
  workspace: z
    .discriminatedUnion('kind', [PathWorkspace, UploadedWorkspace, EmptyWorkspace, GitWorkspace])
    .optional(),
})
export type ForkRun = z.infer<typeof ForkRun>
export type ForkRunInput = z.input<typeof ForkRun>

export const CreateSandbox = z.strictObject({
  workspace: WorkspaceSource.default({ kind: 'empty' }),
  policy: RequestedPolicy.optional(),
  labels: Labels.optional(),
})
export type CreateSandbox = z.infer<typeof CreateSandbox>
export type CreateSandboxInput = z.input<typeof CreateSandbox>

/**
 * `waiting_upload → queued → starting → running ⇄ waiting → ending → succeeded | failed | cancelled`. A run that waits can
 * give its sandbox back (`suspending → suspended`) and continues later from `queued`. `pending_capacity`: the cluster has no
 * room for the sandbox. A sandbox without an agent is `waiting` between commands.
 */
export const RunState = z.enum([
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
export type RunState = z.infer<typeof RunState>
export const FINAL_STATES = ['succeeded', 'failed', 'cancelled'] as const satisfies RunState[]

/** The reason of a wait: a decision, an answer, the next turn, or `POST /resume`. */
export const WaitingFor = z.enum(['approval', 'question', 'turn', 'resume'])
export type WaitingFor = z.infer<typeof WaitingFor>

export const Run = z.object({
  id: RunId,
  kind: z.enum(['agent', 'command']),
  owner: z.string(),
  state: RunState,
  task: z.string(),
  workspace: RunWorkspace,
  /** The run from whose checkpoint this run began. */
  source: RunSource.optional(),
  agent: z.object({ kind: z.string(), model: z.string().optional() }),
  labels: z.record(z.string(), z.string()),
  interactive: z.boolean(),
  generation: z.int(),
  sandbox: z.object({ name: z.string(), isolation: Isolation }).optional(),
  /** Why the run failed: a stable code and a message for people. */
  failure: z.object({ code: ErrorCode, message: z.string() }).optional(),
  outcome: z.object({ outcome: z.enum(['succeeded', 'failed']), summary: z.string().optional() }).optional(),
  /** Set while the state is `waiting`, `suspending` or `suspended`. */
  waiting: z.object({ for: WaitingFor, since: z.iso.datetime() }).optional(),
  /**
   * Set while the run waits in the queue. The next run has position 1. `estimatedStart` is absent if too few runs have
   * started recently.
   */
  queue: z.object({ position: z.int().min(1), estimatedStart: z.iso.datetime().optional() }).optional(),
  /** What the run has used so far, with its limits. */
  budgets: BudgetUses.optional(),
  /** Restrictions in force for this run, its owner, or all runs. All of them apply. */
  restrictions: z.array(Restriction).optional(),
  lastSequence: z.int(),
  createdAt: z.iso.datetime(),
  startedAt: z.iso.datetime().optional(),
  firstEventAt: z.iso.datetime().optional(),
  endedAt: z.iso.datetime().optional(),
  /** When the workspace and the session were last saved outside the sandbox. */
  checkpointAt: z.iso.datetime().optional(),
})
export type Run = z.infer<typeof Run>

const page = <T extends z.ZodType>(item: T) => z.object({ items: z.array(item), next: z.string().optional() })
export const RunPage = page(Run)
export const EventPage = page(RunEnvelope)

export const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  after: z.string().max(256).optional(),
})

export const StartTurn = z.strictObject({
  prompt: z.string().min(1).max(262_144),
  /** End the run after this turn. */
  final: z.boolean().default(false),
})
export type StartTurn = z.infer<typeof StartTurn>
export type StartTurnInput = z.input<typeof StartTurn>
export const Turn = z.object({ id: z.string(), runId: RunId, state: z.enum(['queued', 'sent', 'ended']) })
export type Turn = z.infer<typeof Turn>

export const StartCommand = ExecRequest.omit({
  readOnly: true,
  denied: true,
  readOnlyRoots: true,
  maxWorkspaceBytes: true,
  maxWorkspaceFiles: true,
}).extend({
  /** Standard input of the command, base64. */
  stdin: z.base64().max(89_478_488).optional(),
})
export type StartCommand = z.infer<typeof StartCommand>
export type StartCommandInput = z.input<typeof StartCommand>

/** The command's events are in the run's stream, after `afterSequence`. */
export const StartedCommand = z.object({ commandId: z.string(), afterSequence: z.int().nonnegative() })
export type StartedCommand = z.infer<typeof StartedCommand>

/** Maximum number of refusals in one answer about a command. */
export const MAX_LISTED_REFUSALS = 64

/** A command that has ended, with its output, as one document. */
export const FinishedCommand = z.object({
  commandId: z.string(),
  ...ExecResult.shape,
  /** Whether output is missing at the end of `stdout` or `stderr`. */
  outputTruncated: z.boolean(),
  /** Output as text without secrets: of each stream at most the first `maxOutputBytes` of the request, in UTF-8. */
  stdout: z.string(),
  stderr: z.string(),
  /** Bytes that are missing at the end of each stream. */
  stdoutCutBytes: z.int().nonnegative(),
  stderrCutBytes: z.int().nonnegative(),
  /**
   * Connections that the egress proxy refused to the sandbox while the command ran. They may be of another command that
   * ran at the same time. Refusals that the proxy reports after the end of the command are only in the run's events.
   */
  refusals: z.array(EgressDenied).max(MAX_LISTED_REFUSALS),
})
export type FinishedCommand = z.infer<typeof FinishedCommand>

const CommandHash = z.string().regex(/^[0-9a-f]{16}$/)
const RequestId = z.string().min(1).max(128)
/** The refinements below as JSON Schema. Client generators turn `oneOf` into unions but ignore `not`. */
const EXACTLY_ONE = {
  description: 'Exactly one of requestId and commandHash',
  not: {
    anyOf: [
      { required: ['requestId', 'commandHash'] },
      { not: { anyOf: [{ required: ['requestId'] }, { required: ['commandHash'] }] } },
    ],
  },
}

export const ApproveShell = z
  .strictObject({
    requestId: RequestId.optional(),
    commandHash: CommandHash.optional(),
    scope: z.enum(['once', 'run']).default('once'),
  })
  .refine((body) => (body.requestId === undefined) !== (body.commandHash === undefined), {
    message: 'exactly one of requestId and commandHash',
  })
  .meta(EXACTLY_ONE)
export type ApproveShell = z.infer<typeof ApproveShell>
export const DenyShell = z
  .strictObject({
    requestId: RequestId.optional(),
    commandHash: CommandHash.optional(),
    reason: z.string().max(4000).optional(),
  })
  .refine((body) => (body.requestId === undefined) !== (body.commandHash === undefined), {
    message: 'exactly one of requestId and commandHash',
  })
  .meta(EXACTLY_ONE)
export type DenyShell = z.infer<typeof DenyShell>
export const ApproveTool = z.strictObject({
  requestId: RequestId,
  scope: z.enum(['once', 'run']).default('once'),
})
export type ApproveTool = z.infer<typeof ApproveTool>
export const DenyTool = z.strictObject({ requestId: RequestId, reason: z.string().max(4000).optional() })
export type DenyTool = z.infer<typeof DenyTool>
export const AnswerQuestion = z.strictObject({ answer: z.string().min(1).max(65_536) })

export const Approval = z.object({
  requestId: z.string(),
  runId: RunId,
  callId: z.string(),
  tool: z.string(),
  state: z.enum(['pending', 'approved', 'denied', 'expired', 'superseded']),
  commandHash: z.string().optional(),
  scope: z.enum(['once', 'run']).optional(),
  decidedBy: z.string().optional(),
  reason: z.string().optional(),
  expiresAt: z.iso.datetime(),
})
export type Approval = z.infer<typeof Approval>
export const ApprovalPage = page(Approval)

/** One page of a folder in a sandbox. Pass `next` as `after` to get the next page. */
export const FileListing = z.object({ entries: z.array(FileEntry), next: z.string().optional() })
export type FileListing = z.infer<typeof FileListing>

/** Liveness: the process serves requests. */
export const Health = z.object({ status: z.literal('ok') })

export const Readiness = z.object({
  ready: z.boolean(),
  checks: z.array(z.object({ name: z.string(), ok: z.boolean(), detail: z.string() })),
})
export type Readiness = z.infer<typeof Readiness>
