import * as z from 'zod'
import { Budgets } from './budgets.ts'
import { EXEC_LIMITS, ExecRequest } from './exec.ts'
import { AbsolutePath } from './paths.ts'

/** A host name in lower case, or `*.` and a name, which stands for one more label. */
export const EgressHost = z
  .string()
  .max(255)
  .regex(
    /^(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
    'must be a full host name in lower case, such as registry.npmjs.org',
  )

/** Limits of the commands that prepare the workspace of a run, together. */
export const SETUP_LIMITS = { maxCommands: 16, maxCommandLength: 4096, maxMs: 1_800_000 } as const

const SetupCommands = z
  .array(
    z
      .string()
      .min(1)
      .max(SETUP_LIMITS.maxCommandLength)
      .regex(/^[^\0]*$/, 'must not contain NUL'),
  )
  .max(SETUP_LIMITS.maxCommands)

/** Rules for the people who approve requests of agents. */
const ApprovalRules = z.strictObject({
  /** `true`: nobody who contributed to a run approves its requests, and no API key does. */
  not_by_owner: z.boolean(),
})

/** `ask`: a person pushes the results of a run. `allow`: its commands may push too. `deny`: no push at all. */
export const PushRule = z.enum(['ask', 'allow', 'deny'])
export type PushRule = z.infer<typeof PushRule>

/** Rules for the results of a run. */
const ResultRules = z.strictObject({ push: PushRule })

/**
 * Sandbox settings of a run, in the spelling of a repository's `.agentweaver/settings.yml` (snake_case) and of the
 * `/api/sandbox-policy` routes. Only the operator can set `direct`.
 */
export const SandboxSettings = z.strictObject({
  shell_enabled: z.boolean().default(true),
  /** Folders outside the workspace that are mounted read-only for commands. */
  allowed_repository_roots: z.array(AbsolutePath).max(64).default([]),
  /** More patterns that need approval, in the syntax of `policies/agent/approvals.yaml`. */
  destructive_command_patterns: z.array(z.string().min(1).max(512)).max(256).default([]),
  require_approval_for_all_shell: z.boolean().default(false),
  redact_pii: z.boolean().default(true),
  max_output_bytes: z
    .int()
    .min(1_048_576)
    .max(EXEC_LIMITS.maxMaxOutputBytes)
    .default(EXEC_LIMITS.defaultMaxOutputBytes),
  /** How much the commands of a sandbox may write to its workspace. */
  max_workspace_bytes: ExecRequest.shape.maxWorkspaceBytes,
  max_workspace_files: ExecRequest.shape.maxWorkspaceFiles,
  network_enabled: z.boolean().default(false),
  /** The only hosts of the operator's egress list that commands may reach. Without a value, all of them. */
  egress_hosts: z.array(EgressHost).max(256).optional(),
  /** `true`: no request can accept a run whose last turn ended without `report_outcome`. */
  require_outcome: z.boolean().optional(),
  /** Limits of every run. Without a value, there is no limit. */
  budgets: Budgets.optional(),
  approvals: ApprovalRules.optional(),
  /** Command lines that the service runs in the sandbox before the first turn, in order. Without a value, none. */
  setup_commands: SetupCommands.optional(),
  /** Without a value, a person pushes. */
  results: ResultRules.optional(),
  direct: z.boolean().default(false),
})
export type SandboxSettings = z.infer<typeof SandboxSettings>

/** Settings from a caller or a repository: every key is optional, unknown keys are rejected, `direct` is not allowed. */
export const SandboxSettingsPatch = z.strictObject({
  shell_enabled: SandboxSettings.shape.shell_enabled.unwrap().optional(),
  allowed_repository_roots: SandboxSettings.shape.allowed_repository_roots.unwrap().optional(),
  destructive_command_patterns: SandboxSettings.shape.destructive_command_patterns.unwrap().optional(),
  require_approval_for_all_shell: SandboxSettings.shape.require_approval_for_all_shell.unwrap().optional(),
  redact_pii: SandboxSettings.shape.redact_pii.unwrap().optional(),
  max_output_bytes: SandboxSettings.shape.max_output_bytes.unwrap().optional(),
  max_workspace_bytes: SandboxSettings.shape.max_workspace_bytes.unwrap().optional(),
  max_workspace_files: SandboxSettings.shape.max_workspace_files.unwrap().optional(),
  network_enabled: SandboxSettings.shape.network_enabled.unwrap().optional(),
  egress_hosts: SandboxSettings.shape.egress_hosts,
  require_outcome: SandboxSettings.shape.require_outcome,
  budgets: SandboxSettings.shape.budgets,
  approvals: SandboxSettings.shape.approvals,
  setup_commands: SandboxSettings.shape.setup_commands,
  results: SandboxSettings.shape.results,
})
export type SandboxSettingsPatch = z.infer<typeof SandboxSettingsPatch>

/** For which runs a sandbox policy is. Without a key, for all runs of the deployment. */
export const PolicyScope = z
  .strictObject({
    /** Runs that begin with a clone of this repository: `https://HOST/PATH`. Case and `.git` make no difference. */
    repository: z.string().min(1).max(2048).optional(),
    /** Runs of this owner. */
    owner: z.string().min(1).max(512).optional(),
  })
  .refine(({ repository, owner }) => repository === undefined || owner === undefined, {
    message: 'name a repository or an owner, not both',
    path: ['owner'],
  })
export type PolicyScope = z.infer<typeof PolicyScope>

/** The settings that AgentHost uses. The API alone enforces the others. */
export const HostSettings = SandboxSettings.omit({
  require_outcome: true,
  budgets: true,
  egress_hosts: true,
  approvals: true,
  setup_commands: true,
  results: true,
})
export type HostSettings = z.infer<typeof HostSettings>

/** Path and maximum size of a workspace's settings file. Real files are far smaller. */
export const SETTINGS_FILE = { path: '.agentweaver/settings.yml', maxBytes: 65_536 } as const

/** Whether a folder's settings come from its settings file, or are the defaults because there was no file. */
export const SettingsOrigin = z.enum(['file', 'defaults'])

export const RunPhase = z.enum(['setup', 'work'])
export type RunPhase = z.infer<typeof RunPhase>

/** A decision of governance. `ask` requires an approval by a person. */
export const Verdict = z.enum(['allow', 'deny', 'ask'])
export type Verdict = z.infer<typeof Verdict>

/** A decision with its reasons. `rule` is the deciding rule; `matched` lists the patterns that require approval. */
export const Decision = z.strictObject({
  verdict: Verdict,
  rule: z.string(),
  reasons: z.array(z.string()),
  matched: z.array(z.string()).default([]),
})
export type Decision = z.infer<typeof Decision>

/** Policy of a run. AgentHost and the API evaluate the same policy. */
export const GovernancePolicy = z.strictObject({
  /** Digest of the embedded policy files and of these settings. */
  version: z.string().min(1).max(128),
  settings: HostSettings,
})
export type GovernancePolicy = z.infer<typeof GovernancePolicy>
