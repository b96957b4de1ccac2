import * as z from 'zod'
import { BackendName } from './backends.ts'
import { BudgetKind } from './budgets.ts'
import { EGRESS_EVENTS } from './egress-events.ts'
import { ErrorCode } from './errors.ts'
import { CommandShell, ExecResult, OutputStream, WorkspaceUsage } from './exec.ts'
import { ClonedRepository } from './git-source.ts'
import { SettingsOrigin, Verdict } from './policy.ts'
import { RestrictionLevel } from './restrictions.ts'
import { ToolOutcome } from './tools.ts'

const Id = z.string().min(1).max(128)
const When = z.iso.datetime()

/** An approval request as shown to people. Hidden characters are made visible, so the text is exactly what runs. */
const ApprovalRequired = z.strictObject({
  requestId: Id,
  callId: Id,
  tool: z.string(),
  request: z.unknown(),
  matched: z.array(z.string()),
  expiresAt: When,
  /** Redaction changed the request. The client shows that a part is hidden. */
  redacted: z.boolean().default(false),
})

const ShellApprovalRequired = ApprovalRequired.extend({
  /** Short name of the command: the first 16 hex digits of its SHA-256. */
  commandHash: z.string().regex(/^[0-9a-f]{16}$/),
  command: z.string(),
  workingDirectory: z.string(),
})

const Decided = z.strictObject({
  requestId: Id,
  callId: Id,
  by: z.string().optional(),
  reason: z.string().optional(),
})

/**
 * A guarantee that the sandbox cannot give, or gives in a weaker form. Reported before the first command, apart from
 * `model-waits`: a request to the model is repeated until its server is available.
 */
export const SandboxWarningCategory = z.enum([
  'network-unrestricted',
  'no-isolation',
  'no-loopback',
  'weaker-limits',
  'egress-union',
  'egress-by-name',
  'egress-upstream-proxy',
  'credential-in-sandbox',
  'cleartext-model-route',
  'model-waits',
])

/** Git directories that the run left in the user's folder. They are renamed, so the user's git does not load them. */
export const HeldEntries = z.strictObject({
  count: z.int().nonnegative(),
  /** Some of the original paths; each file now has the suffix `.agentweaver-held`. */
  names: z.array(z.string().max(4096)).max(16),
  /** False if the folder was too large to scan completely. */
  isComplete: z.boolean(),
})
export type HeldEntries = z.infer<typeof HeldEntries>

/** The checkpoint of another run that a run began from, and the parts of it that were copied. */
export const RunSource = z.strictObject({
  runId: z.string(),
  checkpointAt: When,
  copied: z.array(z.enum(['workspace', 'session'])).min(1),
})
export type RunSource = z.infer<typeof RunSource>

/** How the settings file differs from the settings in force: changed, newly added, or removed. */
export const SettingsIgnoredReason = z.enum(['changed', 'added', 'removed'])
export type SettingsIgnoredReason = z.infer<typeof SettingsIgnoredReason>

/** Events that AgentHost may send. The API rejects all others, so a pod cannot fake an approval or the end of a run. */
const HOST_EVENTS = [
  z.strictObject({ type: z.literal('turn.started'), data: z.strictObject({ turnId: Id }) }),
  z.strictObject({
    type: z.literal('turn.ended'),
    data: z.strictObject({
      turnId: Id,
      state: z.enum(['completed', 'failed', 'cancelled']),
      code: ErrorCode.optional(),
      message: z.string().optional(),
    }),
  }),
  z.strictObject({
    type: z.literal('agent.intent'),
    data: z.strictObject({ intent: z.string(), callId: Id.optional() }),
  }),
  z.strictObject({
    type: z.literal('agent.message.delta'),
    data: z.strictObject({ messageId: Id, text: z.string() }),
  }),
  z.strictObject({
    type: z.literal('agent.message'),
    data: z.strictObject({
      messageId: Id,
      text: z.string(),
      /** The model refused the request; `text` is its reason. */
      refusal: z.literal(true).optional(),
    }),
  }),
  z.strictObject({
    type: z.literal('agent.turn.usage'),
    data: z.strictObject({
      model: z.string().optional(),
      inputTokens: z.int().nonnegative(),
      outputTokens: z.int().nonnegative(),
    }),
  }),
  z.strictObject({
    type: z.literal('tool.call'),
    data: z.strictObject({
      callId: Id,
      tool: z.string().max(128),
      request: z.unknown(),
      /** Verdict of governance inside the sandbox. The API decides again, and its decision is final. */
      verdict: Verdict,
      reasons: z.array(z.string()).default([]),
      redacted: z.boolean().optional(),
      /** HMAC of the request before redaction, with a key of this run. */
      rawDigest: z.string().optional(),
    }),
  }),
  z.strictObject({
    type: z.literal('tool.result'),
    data: z.strictObject({
      callId: Id,
      tool: z.string(),
      outcome: ToolOutcome,
      durationMs: z.number().nonnegative(),
    }),
  }),
  /** A call that did not run. `code` is `denied`, `expired`, `superseded`, `policyDenied` or an error code. */
  z.strictObject({
    type: z.literal('tool.error'),
    data: z.strictObject({ callId: Id, tool: z.string(), code: z.string(), message: z.string() }),
  }),
  z.strictObject({
    type: z.literal('command.output'),
    data: z.strictObject({ commandId: Id, callId: Id.optional(), stream: OutputStream, chunk: z.string() }),
  }),
  z.strictObject({
    type: z.literal('command.exited'),
    data: z.strictObject({ commandId: Id, callId: Id.optional(), result: ExecResult }),
  }),
  z.strictObject({
    type: z.literal('sandbox.warning'),
    data: z.strictObject({
      category: SandboxWarningCategory,
      message: z.string(),
      backend: BackendName,
    }),
  }),
  z.strictObject({ type: z.literal('workspace.held'), data: HeldEntries }),
  /** What the commands have written reaches 50, 80 or 95 percent of a limit, or is below such a level again. */
  z.strictObject({ type: z.literal('workspace.usage'), data: WorkspaceUsage }),
] as const

const API_EVENTS = [
  /** The user's folder, or the copy of it, is ready for the run. */
  z.strictObject({
    type: z.literal('workspace.prepared'),
    data: z.strictObject({
      mode: z.enum(['isolated', 'in-place']),
      path: z.string(),
      /** Only for an isolated copy. */
      files: z.int().nonnegative().optional(),
      bytes: z.int().nonnegative().optional(),
      /** Paths missing from the copy because the user cannot read them. */
      unreadable: z.strictObject({ count: z.int(), names: z.array(z.string()).max(16) }).optional(),
      hasUncommittedChanges: z.boolean(),
      /** Paths that are read-only for the run, because the user's git configuration refers to them. */
      readOnly: z.array(z.string()).max(64),
    }),
  }),
  /** The sandbox clones the repository of the run. Repeated while it works. */
  z.strictObject({
    type: z.literal('workspace.cloning'),
    data: z.strictObject({
      url: z.string(),
      ref: z.string().optional(),
      step: z.string(),
      percent: z.int().min(0).max(100).optional(),
    }),
  }),
  /** The repository is cloned. `commit` is the base of the run's diff. */
  z.strictObject({
    type: z.literal('workspace.cloned'),
    data: z.strictObject({ url: z.string(), ref: z.string().optional(), ...ClonedRepository.shape }),
  }),
  /** The run created or changed a file that the user's tools execute or obey. */
  z.strictObject({
    type: z.literal('workspace.handoff'),
    data: z.strictObject({ path: z.string(), kind: z.string() }),
  }),
  /** The results of a run on a user's folder or on a repository are stored. */
  z.strictObject({
    type: z.literal('workspace.results'),
    data: z.strictObject({
      files: z.int().nonnegative(),
      additions: z.int().nonnegative(),
      deletions: z.int().nonnegative(),
      /** Changed files that git ignores. */
      ignored: z.int().nonnegative(),
      handOff: z.int().nonnegative(),
      /** Whether there are commits to fetch. */
      hasBranch: z.boolean(),
      problems: z.array(z.string()).max(16),
      /** Path of the copy, kept for a week because its results could not be collected. */
      keptAt: z.string().optional(),
    }),
  }),
  z.strictObject({
    type: z.literal('run.queued'),
    data: z.strictObject({ task: z.string(), source: RunSource.optional() }),
  }),
  /** First run in a folder: its settings file, or the defaults without a file, are now in force. */
  z.strictObject({
    type: z.literal('policy.settings_trusted'),
    data: z.strictObject({ path: z.string(), settings: SettingsOrigin }),
  }),
  /** The settings file at `path` differs from the settings in force, so the run ignores the file. */
  z.strictObject({
    type: z.literal('policy.settings_ignored'),
    data: z.strictObject({ path: z.string(), reason: SettingsIgnoredReason }),
  }),
  /** A setup command of the run starts. Its output and its end are `command.output` and `command.exited`. */
  z.strictObject({
    type: z.literal('setup.command'),
    data: z.strictObject({
      commandId: Id,
      command: z.string(),
      /** From 1. */
      number: z.int().positive(),
      of: z.int().positive(),
    }),
  }),
  /** The setup is over: the network of the phase `setup` is closed. */
  z.strictObject({
    type: z.literal('setup.ended'),
    data: z.strictObject({ succeeded: z.boolean(), durationMs: z.int().nonnegative() }),
  }),
  z.strictObject({ type: z.literal('run.started'), data: z.strictObject({ generation: z.int() }) }),
  z.strictObject({
    type: z.literal('run.suspended'),
    data: z.strictObject({
      waitingFor: z.enum(['approval', 'question', 'turn', 'resume']),
      checkpointAt: When,
    }),
  }),
  z.strictObject({
    type: z.literal('run.resumed'),
    data: z.strictObject({
      generation: z.int(),
      /** What its commands may reach has changed since the checkpoint. */
      isEgressChanged: z.literal(true).optional(),
    }),
  }),
  /** The sandbox is gone and the run continues from its last checkpoint in another one. */
  z.strictObject({
    type: z.literal('run.interrupted'),
    data: z.strictObject({ code: ErrorCode, message: z.string() }),
  }),
  /** A budget of the run is used up by 50, 80 or 100 percent. At 100 percent the run fails with `budget_exceeded`. */
  z.strictObject({
    type: z.literal('run.budget'),
    data: z.strictObject({ kind: BudgetKind, used: z.number().nonnegative(), limit: z.int().positive() }),
  }),
  z.strictObject({
    type: z.literal('run.outcome'),
    data: z.strictObject({ outcome: z.enum(['succeeded', 'failed']), summary: z.string().optional() }),
  }),
  z.strictObject({
    type: z.literal('run.failed'),
    data: z.strictObject({ code: ErrorCode, message: z.string() }),
  }),
  z.strictObject({ type: z.literal('run.cancelled'), data: z.strictObject({ by: z.string() }) }),
  /** A restriction that applies to the run was set or changed, or lifted with the level `normal`. */
  z.strictObject({
    type: z.literal('run.restricted'),
    data: z.strictObject({
      level: RestrictionLevel,
      scope: z.enum(['run', 'owner', 'all']),
      by: z.string(),
      reason: z.string(),
    }),
  }),
  z.strictObject({
    type: z.literal('sandbox.selected'),
    data: z.strictObject({
      backend: BackendName,
      isRealIsolation: z.boolean(),
      shell: CommandShell.optional(),
      reason: z.string(),
    }),
  }),
  z.strictObject({
    type: z.literal('sandbox.execution_pod.bound'),
    data: z.strictObject({
      podName: z.string(),
      podUid: z.string(),
      claimName: z.string(),
      launch: z.enum(['warm', 'cold']),
      bindMs: z.number().nonnegative(),
    }),
  }),
  z.strictObject({
    type: z.literal('sandbox.execution_pod.released'),
    data: z.strictObject({ reason: z.string() }),
  }),
  z.strictObject({ type: z.literal('shell.approval_required'), data: ShellApprovalRequired }),
  z.strictObject({ type: z.literal('shell.approved'), data: Decided }),
  z.strictObject({ type: z.literal('shell.denied'), data: Decided }),
  z.strictObject({ type: z.literal('shell.expired'), data: Decided }),
  z.strictObject({ type: z.literal('shell.superseded'), data: Decided }),
  z.strictObject({ type: z.literal('tool.approval_required'), data: ApprovalRequired }),
  z.strictObject({ type: z.literal('tool.approved'), data: Decided }),
  z.strictObject({
    type: z.literal('tool.denied'),
    data: z.strictObject({
      callId: Id,
      tool: z.string(),
      by: z.enum(['person', 'policy']),
      reason: z.string(),
      requestId: Id.optional(),
    }),
  }),
  z.strictObject({ type: z.literal('tool.expired'), data: Decided }),
  z.strictObject({ type: z.literal('tool.superseded'), data: Decided }),
  z.strictObject({
    type: z.literal('agent.question_asked'),
    data: z.strictObject({
      requestId: Id,
      callId: Id,
      question: z.string(),
      choices: z.array(z.string()).optional(),
      expiresAt: When,
    }),
  }),
  z.strictObject({
    type: z.literal('agent.question_answered'),
    data: z.strictObject({ requestId: Id, callId: Id, by: z.string() }),
  }),
  ...EGRESS_EVENTS,
  z.strictObject({
    type: z.literal('subtask.pending_capacity'),
    data: z.strictObject({
      resource: z.string(),
      requested: z.number(),
      available: z.number(),
      attempt: z.int(),
      nextAttemptAt: When,
    }),
  }),
  /** The last event of a run. */
  z.strictObject({
    type: z.literal('done'),
    data: z.strictObject({ state: z.enum(['succeeded', 'failed', 'cancelled']) }),
  }),
] as const

export const HostEvent = z.discriminatedUnion('type', HOST_EVENTS)
export type HostEvent = z.infer<typeof HostEvent>

export const RunEvent = z.discriminatedUnion('type', [...HOST_EVENTS, ...API_EVENTS])
export type RunEvent = z.infer<typeof RunEvent>
export type RunEventType = RunEvent['type']

/** An event as numbered by the sandbox: from 1, without gaps. */
export const HostEnvelope = z.strictObject({
  sequence: z.int().positive(),
  at: When,
  taskId: Id.optional(),
  commandId: Id.optional(),
  callId: Id.optional(),
  event: HostEvent,
})
export type HostEnvelope = z.infer<typeof HostEnvelope>

/** An event as numbered by the API: per run, from 1, without gaps. */
export const RunEnvelope = z.strictObject({
  sequence: z.int().positive(),
  at: When,
  event: RunEvent,
})
export type RunEnvelope = z.infer<typeof RunEnvelope>

/** Media type of an event part in an A2A message. */
export const RUN_EVENT_MEDIA_TYPE = 'application/x-agentweaver-run-event+json'
