import * as z from 'zod'
import { BackendName } from './backends.ts'
import { AbsolutePath } from './paths.ts'

/** Limits of one command. The bounds are ours; the default timeout is that of `run_command`. */
export const EXEC_LIMITS = {
  maxCommandBytes: 65_536,
  defaultTimeoutMs: 30_000,
  maxTimeoutMs: 3_600_000,
  defaultMaxOutputBytes: 4_194_304,
  maxMaxOutputBytes: 104_857_600,
  maxStdinBytes: 67_108_864,
} as const

/** Names a shell can export; values without NUL. */
const EnvName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be of letters, digits and _, with no digit first')
const NoNul = z.string().refine((text) => !text.includes('\0'), 'must not contain NUL')

/** One command under the executor contract. Paths are relative to the workspace root. */
export const ExecRequest = z.strictObject({
  /** A line for the sandbox's shell (`Isolation.shell`), at most 65,536 bytes of UTF-8. */
  command: NoNul.min(1).refine(
    (text) => new TextEncoder().encode(text).length <= EXEC_LIMITS.maxCommandBytes,
    `must be at most ${EXEC_LIMITS.maxCommandBytes} bytes`,
  ),
  directory: NoNul.max(4096).default('.'),
  environment: z.record(EnvName, NoNul.max(131_072)).default({}),
  timeoutMs: z.int().min(1).max(EXEC_LIMITS.maxTimeoutMs).default(EXEC_LIMITS.defaultTimeoutMs),
  /** Cap per stream (stdout, stderr); what comes after it is drained and counted, never kept. */
  maxOutputBytes: z
    .int()
    .min(1)
    .max(EXEC_LIMITS.maxMaxOutputBytes)
    .default(EXEC_LIMITS.defaultMaxOutputBytes),
  /** Whether the command may use the network. */
  network: z.boolean().default(false),
  /** Workspace paths that the command may read but not write, and paths that it may not see. */
  readOnly: z.array(NoNul.min(1).max(4096)).max(64).default([]),
  denied: z.array(NoNul.min(1).max(4096)).max(64).default([]),
  /** Folders outside the workspace that are mounted read-only at the same place, as far as the operator allows them. */
  readOnlyRoots: z.array(AbsolutePath).max(64).default([]),
})
export type ExecRequest = z.infer<typeof ExecRequest>

export const OutputStream = z.enum(['stdout', 'stderr'])
export type OutputStream = z.infer<typeof OutputStream>

/** The first reason why a command ended; later ones are not recorded. */
export const TerminationReason = z.enum(['exit', 'signal', 'timeout', 'cancelled', 'spawn_failed', 'lost'])
export type TerminationReason = z.infer<typeof TerminationReason>

/** How a command ended. Exactly one of `exitCode` and `signal` is set once the program ran. */
export const ExecResult = z.strictObject({
  exitCode: z.int().nullable(),
  signal: z.string().nullable(),
  timedOut: z.boolean(),
  outputTruncated: z.boolean(),
  /** Bytes that the program wrote, kept or not. */
  stdoutBytes: z.int().nonnegative(),
  stderrBytes: z.int().nonnegative(),
  reason: TerminationReason,
  durationMs: z.number().nonnegative(),
  /** A sentence for people where `reason` alone does not explain it. */
  message: z.string().optional(),
})
export type ExecResult = z.infer<typeof ExecResult>

/** The shell that runs commands: bash where the sandbox has it, else `/bin/sh`, whichever shell that is. */
export const CommandShell = z.enum(['bash', 'sh'])
export type CommandShell = z.infer<typeof CommandShell>

/** Which backend isolates commands, and why that one. */
export const Isolation = z.strictObject({
  backend: BackendName,
  isRealIsolation: z.boolean(),
  /** Whether it can hold a command to the egress allowlist when the network is on. */
  enforcesEgress: z.boolean(),
  /** Absent where it is not known; governance then asks about what the two shells read differently. */
  shell: CommandShell.optional(),
  reason: z.string(),
})
export type Isolation = z.infer<typeof Isolation>

/** A command as it travels to AgentHost: the request and its input, base64. */
export const HostCommand = ExecRequest.extend({ stdin: z.base64().max(89_478_488).optional() })
export type HostCommand = z.infer<typeof HostCommand>
export type HostCommandInput = z.input<typeof HostCommand>
