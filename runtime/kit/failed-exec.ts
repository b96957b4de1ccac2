import type { ExecResult } from '../../contracts/exec.ts'

/** The result of a command that did not run or whose outcome is unknown. */
export const failedExec = (reason: ExecResult['reason'], message: string): ExecResult => ({
  exitCode: null,
  signal: null,
  timedOut: false,
  outputTruncated: false,
  stdoutBytes: 0,
  stderrBytes: 0,
  reason,
  durationMs: 0,
  message,
})
