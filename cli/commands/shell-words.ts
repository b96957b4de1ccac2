import type { ExecResult } from '../../contracts/exec.ts'
import { EXIT } from '../exit-status.ts'
import { quoteWord } from '../terminal/shell-word.ts'

const SIGNAL_STATUS = 128
const TIMED_OUT_STATUS = 124
/** `docker run` and `env` use this status when the wrapper failed and not the command. */
const WRAPPER_STATUS = 125
const SIGNALS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGABRT: 6,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGPIPE: 13,
  SIGTERM: 15,
}

/** One word is a shell command line; several words are a program and its arguments. */
export const toLine = (words: readonly string[]): string =>
  words.length === 1 ? (words[0] ?? '') : words.map(quoteWord).join(' ')

/**
 * The exit status that a shell would report: 124 for a timeout, 128 + n for signal n. A command that succeeded with
 * incomplete output exits with 125, so that a script does not use the partial output as the whole. So does a command that was
 * stopped or not started because the workspace is full.
 */
export function statusOf(result: ExecResult): number {
  if (result.timedOut) return TIMED_OUT_STATUS
  if (result.reason === 'workspace_full') return WRAPPER_STATUS
  if (result.exitCode === 0 && result.outputTruncated) return WRAPPER_STATUS
  if (result.exitCode !== null) return result.exitCode
  if (result.signal !== null) return SIGNAL_STATUS + (SIGNALS[result.signal] ?? 0)
  return EXIT.runFailed
}
