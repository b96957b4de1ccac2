import type { ExecResult } from '../../contracts/exec.ts'

/** A command that said nothing and ended well. */
export const EXITED = {
  exitCode: 0,
  signal: null,
  timedOut: false,
  outputTruncated: false,
  stdoutBytes: 0,
  stderrBytes: 0,
  reason: 'exit',
  durationMs: 1,
} as const satisfies ExecResult
