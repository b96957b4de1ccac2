import * as z from 'zod'
import { BackendName } from './backends.ts'
import { AbsolutePath } from './paths.ts'

/** Limits of one command. `defaultTimeoutMs` is also the default of the tool `run_command`. */
export const EXEC_LIMITS = {
  maxCommandBytes: 65_536,
  defaultTimeoutMs: 30_000,
  maxTimeoutMs: 3_600_000,
  defaultMaxOutputBytes: 4_194_304,
  maxMaxOutputBytes: 104_857_600,
  maxStdinBytes: 67_108_864,
  defaultMaxWorkspaceBytes: 10_737_418_240,
  maxMaxWorkspaceBytes: 1_099_511_627_776,
  defaultMaxWorkspaceFiles: 1_000_000,
  maxMaxWorkspaceFiles: 100_000_000,
} as const

/** Names that a shell can export. */
const EnvName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be of letters, digits and _, with no digit first')
const NoNul = z.string().regex(/^[^\0]*$/, 'must not contain NUL')

/** One command. Paths are relative to the workspace root. */
export const ExecRequest = z.strictObject({
  /** A line for the sandbox's shell (`Isolation.shell`), at most 65,536 bytes of UTF-8. */
  command: NoNul.min(1)
    .max(EXEC_LIMITS.maxCommandBytes)
    .refine(
      (text) => new TextEncoder().encode(text).length <= EXEC_LIMITS.maxCommandBytes,
      `must be at most ${EXEC_LIMITS.maxCommandBytes} bytes`,
    ),
  directory: NoNul.max(4096).default('.'),
  environment: z.record(EnvName, NoNul.max(131_072)).default({}),
  timeoutMs: z.int().min(1).max(EXEC_LIMITS.maxTimeoutMs).default(EXEC_LIMITS.defaultTimeoutMs),
  /** Cap per stream (stdout, stderr). Output beyond the cap is read and counted, but not kept. */
  maxOutputBytes: z
    .int()
    .min(1)
    .max(EXEC_LIMITS.maxMaxOutputBytes)
    .default(EXEC_LIMITS.defaultMaxOutputBytes),
  /**
   * How much the commands of the sandbox may write to its workspace, together. A command is stopped while it writes more:
   * see `workspace_full`.
   */
  maxWorkspaceBytes: z
    .int()
    .min(1_048_576)
    .max(EXEC_LIMITS.maxMaxWorkspaceBytes)
    .default(EXEC_LIMITS.defaultMaxWorkspaceBytes),
  maxWorkspaceFiles: z
    .int()
    .min(1000)
    .max(EXEC_LIMITS.maxMaxWorkspaceFiles)
    .default(EXEC_LIMITS.defaultMaxWorkspaceFiles),
  /** Whether the command may use the network. */
  network: z.boolean().default(false),
  /** `readOnly`: workspace paths that the command may read but not write. `denied`: paths hidden from it. */
  readOnly: z.array(NoNul.min(1).max(4096)).max(64).default([]),
  denied: z.array(NoNul.min(1).max(4096)).max(64).default([]),
  /** Folders outside the workspace that are mounted read-only at the same path, if the operator allows them. */
  readOnlyRoots: z.array(AbsolutePath).max(64).default([]),
})
export type ExecRequest = z.infer<typeof ExecRequest>

/** Percent of a limit. When the use of a workspace reaches another level, an event reports it. */
export const WORKSPACE_LEVELS = [50, 80, 95] as const

/** How much the commands of a sandbox have written to its workspace, and how much they may write. */
export const WorkspaceUsage = z.strictObject({
  /** The highest level that is reached, in percent of a limit. 0: it is below the lowest level again. */
  level: z.literal([0, ...WORKSPACE_LEVELS]),
  bytes: z.int().nonnegative(),
  files: z.int().nonnegative(),
  maxBytes: z.int().positive(),
  maxFiles: z.int().positive(),
  /** False if not all files could be counted. Then the growth of the file system counts. */
  isComplete: z.boolean(),
})
export type WorkspaceUsage = z.infer<typeof WorkspaceUsage>

export const OutputStream = z.enum(['stdout', 'stderr'])
export type OutputStream = z.infer<typeof OutputStream>

/**
 * Why a command ended. Only the first reason is recorded. `workspace_full`: the commands of the sandbox have written more than
 * `maxWorkspaceBytes` or `maxWorkspaceFiles`, or the file system has no space left. The command was stopped, or not started
 * because earlier commands let a full workspace grow.
 */
export const TerminationReason = z.enum([
  'exit',
  'signal',
  'timeout',
  'cancelled',
  'workspace_full',
  'spawn_failed',
  'lost',
])
export type TerminationReason = z.infer<typeof TerminationReason>

/** How a command ended. If the program ran, exactly one of `exitCode` and `signal` is set. */
export const ExecResult = z.strictObject({
  exitCode: z.int().nullable(),
  signal: z.string().nullable(),
  timedOut: z.boolean(),
  outputTruncated: z.boolean(),
  /** Bytes that the program wrote, including output that was not kept. */
  stdoutBytes: z.int().nonnegative(),
  stderrBytes: z.int().nonnegative(),
  reason: TerminationReason,
  durationMs: z.number().nonnegative(),
  /** An explanation for people, if `reason` alone is not enough. */
  message: z.string().optional(),
})
export type ExecResult = z.infer<typeof ExecResult>

/** The shell that runs commands: bash if the sandbox has it, otherwise `/bin/sh`. */
export const CommandShell = z.enum(['bash', 'sh'])
export type CommandShell = z.infer<typeof CommandShell>

/** The backend that isolates commands, and why it was selected. */
export const Isolation = z.strictObject({
  backend: BackendName,
  isRealIsolation: z.boolean(),
  /** Whether the backend enforces the egress allowlist when the network is on. */
  enforcesEgress: z.boolean(),
  /** Absent if unknown. Governance then asks about commands that the two shells read differently. */
  shell: CommandShell.optional(),
  reason: z.string(),
})
export type Isolation = z.infer<typeof Isolation>

/** A command as sent to AgentHost: the request, and its standard input in base64. */
export const HostCommand = ExecRequest.extend({ stdin: z.base64().max(89_478_488).optional() })
export type HostCommand = z.infer<typeof HostCommand>
export type HostCommandInput = z.input<typeof HostCommand>
