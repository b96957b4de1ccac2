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
  'Give another key: "agentweaver login --url URL" keeps one, AGENTWEAVER_URL and AGENTWEAVER_API_KEY name one together.'

const fieldLines = (error: SandboxError): string[] =>
  error instanceof ProblemError
    ? error.errors.map(({ field, message }) => `  ${field || '(body)'}: ${message}`)
    : []

const BAD_ID = new CliError('That is no id: a run has run_ and 32 hexadecimal digits, a sandbox sbx_.', {
  status: EXIT.usage,
  hint: 'List them with "agentweaver runs" and "agentweaver sandbox ls".',
})

/** The service refused nothing but the id, which was typed. */
const isBadId = (error: unknown): boolean =>
  error instanceof ProblemError && error.errors.length === 1 && error.errors[0]?.field === 'id'

/** Any thrown thing as a `CliError`; `undefined` for what only a defect of ours explains. */
export function toCliError(error: unknown): CliError | undefined {
  if (error instanceof CliError) return error
  if (isBadId(error)) return BAD_ID
  if (!(error instanceof SandboxError)) return undefined
  const status = exitStatusOf(error.code)
  return new CliError([`${error.message} (${error.code})`, ...fieldLines(error)].join('\n'), {
    status,
    cause: error,
    ...(status === EXIT.unauthenticated ? { hint: KEY_HINT } : {}),
  })
}
