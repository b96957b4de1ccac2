import * as z from 'zod'
import { BackendName } from './backends.ts'
import { ErrorCode } from './errors.ts'
import { CommandShell, ExecResult, OutputStream } from './exec.ts'
import { SettingsOrigin, Verdict } from './policy.ts'
import { ToolOutcome } from './tools.ts'

const Id = z.string().min(1).max(128)
const When = z.iso.datetime()

/** An approval request as people see it; what is shown is what runs, with hidden characters made visible. */
const ApprovalRequired = z.strictObject({
  requestId: Id,
  callId: Id,
  tool: z.string(),
  request: z.unknown(),
  matched: z.array(z.string()),
  expiresAt: When,
  /** Redaction changed the request: the person is told that something is hidden. */
  redacted: z.boolean().default(false),
})

const ShellApprovalRequired = ApprovalRequired.extend({
  /** First 16 hex digits of the SHA-256 of the command: the short name. */
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

/** What a sandbox cannot keep, or keeps in a weaker way; said before the first command. */
export const SandboxWarningCategory = z.enum([
  'network-unrestricted',
  'no-isolation',
  'no-loopback',
  'weaker-limits',
  'egress-union',
])

/** Git directories that the run left in the user's folder, which were renamed so that no git of the user runs them. */
export const HeldEntries = z.strictObject({
  count: z.int().nonnegative(),
  /** Some of their paths, as they were; each has `.agentweaver-held` at its end now. */
  names: z.array(z.string().max(4096)).max(16),
  /** False where the folder was too large to be looked through as a whole. */
  isComplete: z.boolean(),
})
export type HeldEntries = z.infer<typeof HeldEntries>

/** How a settings file differs from the settings in force: other text, a file where none was, none where one was. */
export const SettingsIgnoredReason = z.enum(['changed', 'added', 'removed'])
export type SettingsIgnoredReason = z.infer<typeof SettingsIgnoredReason>

/** What AgentHost may say. Anything else from a sandbox is refused: a pod cannot announce an approval or an end. */
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
    data: z.strictObject({ messageId: Id, text: z.string() }),
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
      /** What governance inside the sandbox said; the API's own word is final. */
      verdict: Verdict,
      reasons: z.array(z.string()).default([]),
      redacted: z.boolean().optional(),
      /** HMAC over the request before redaction, under a key of this run. */
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
  /** A call that did not run: `code` says why (`denied`, `expired`, `superseded`, `policyDenied`, a fault). */
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
] as const

const API_EVENTS = [
  /** The folder of the user that the run works on, or its copy, is ready. */
  z.strictObject({
    type: z.literal('workspace.prepared'),
    data: z.strictObject({
      mode: z.enum(['isolated', 'in-place']),
      path: z.string(),
      /** Of an isolated copy. */
      files: z.int().nonnegative().optional(),
      bytes: z.int().nonnegative().optional(),
      /** Paths that the copy does not have, because the user cannot read them. */
      unreadable: z.strictObject({ count: z.int(), names: z.array(z.string()).max(16) }).optional(),
      hasUncommittedChanges: z.boolean(),
      /** Paths that the run can read and not write, because the user's git configuration names them. */
      readOnly: z.array(z.string()).max(64),
    }),
  }),
  /** The run made or changed a file that tools of the user execute or obey. */
  z.strictObject({
    type: z.literal('workspace.handoff'),
    data: z.strictObject({ path: z.string(), kind: z.string() }),
  }),
  /** What a run on a folder of the user left is stored. */
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
      /** The copy of a run whose results could not be made, which is kept for a week. */
      keptAt: z.string().optional(),
    }),
  }),
  z.strictObject({ type: z.literal('run.queued'), data: z.strictObject({ task: z.string() }) }),
  /** The first run in a folder: its settings, those of the file or the defaults, are in force from here on. */
  z.strictObject({
    type: z.literal('policy.settings_trusted'),
    data: z.strictObject({ path: z.string(), settings: SettingsOrigin }),
  }),
  /** The settings file is not what is in force, so the run does not obey it. `path` is the file's. */
  z.strictObject({
    type: z.literal('policy.settings_ignored'),
    data: z.strictObject({ path: z.string(), reason: SettingsIgnoredReason }),
  }),
  z.strictObject({ type: z.literal('run.started'), data: z.strictObject({ generation: z.int() }) }),
  z.strictObject({
    type: z.literal('run.suspended'),
    data: z.strictObject({ gate: Id, checkpointAt: When }),
  }),
  z.strictObject({ type: z.literal('run.resumed'), data: z.strictObject({ generation: z.int() }) }),
  z.strictObject({
    type: z.literal('run.outcome'),
    data: z.strictObject({ outcome: z.enum(['succeeded', 'failed']), summary: z.string().optional() }),
  }),
  z.strictObject({
    type: z.literal('run.failed'),
    data: z.strictObject({ code: ErrorCode, message: z.string() }),
  }),
  z.strictObject({ type: z.literal('run.cancelled'), data: z.strictObject({ by: z.string() }) }),
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

/** An event as a sandbox numbers it, from 1, without gaps. */
export const HostEnvelope = z.strictObject({
  sequence: z.int().positive(),
  at: When,
  taskId: Id.optional(),
  commandId: Id.optional(),
  callId: Id.optional(),
  event: HostEvent,
})
export type HostEnvelope = z.infer<typeof HostEnvelope>

/** An event as the API numbers it, per run, from 1, without gaps. */
export const RunEnvelope = z.strictObject({
  sequence: z.int().positive(),
  at: When,
  event: RunEvent,
})
export type RunEnvelope = z.infer<typeof RunEnvelope>

/** Media type of an event part in an A2A message. */
export const RUN_EVENT_MEDIA_TYPE = 'application/x-agentweaver-run-event+json'
