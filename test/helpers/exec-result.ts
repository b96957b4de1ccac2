import type { ExecResult } from '../../contracts/exec.ts'

/** The result of a command without output and with exit code 0. */
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
