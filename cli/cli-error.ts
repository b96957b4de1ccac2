import { ProblemError } from '../runtime/client/problem-error.ts'
import { SandboxError } from '../runtime/kit/errors.ts'
import { EXIT, type ExitStatus, exitStatusOf } from './exit-status.ts'

type Ending = { readonly status: ExitStatus; readonly hint?: string; readonly cause?: unknown }

/** Ends the command with a sentence for people, a status for scripts, and what to do next. */
export class CliError extends Error {
  readonly status: ExitStatus
  readonly hint: string | undefined

  constructor(message: string, { status, hint, cause }: Ending) {
    super(message, { cause })
    this.name = 'CliError'
    this.status = status
    this.hint = hint
  }
}

export const usageError = (message: string, hint?: string): CliError =>
  new CliError(message, { status: EXIT.usage, ...(hint === undefined ? {} : { hint }) })

const KEY_HINT =
  'Give the key with --api-key or AGENTWEAVER_API_KEY, or work in the folder that has .agentweaver/api-key.'

const fieldLines = (error: SandboxError): string[] =>
  error instanceof ProblemError
    ? error.errors.map(({ field, message }) => `  ${field || '(body)'}: ${message}`)
    : []

/** Any thrown thing as a `CliError`; `undefined` for what only a defect of ours explains. */
export function toCliError(error: unknown): CliError | undefined {
  if (error instanceof CliError) return error
  if (!(error instanceof SandboxError)) return undefined
  const status = exitStatusOf(error.code)
  return new CliError([`${error.message} (${error.code})`, ...fieldLines(error)].join('\n'), {
    status,
    cause: error,
    ...(status === EXIT.unauthenticated ? { hint: KEY_HINT } : {}),
  })
}
