import type { ErrorCode } from '../contracts/errors.ts'
import { ProblemError } from '../runtime/client/problem-error.ts'
import { SandboxError } from '../runtime/kit/errors.ts'
import { EXIT, type ExitStatus, exitStatusOf } from './exit-status.ts'
import { sentence, typedField, typedWords } from './service/cli-words.ts'

type Ending = { readonly status: ExitStatus; readonly hint?: string; readonly cause?: unknown }

/** An error that ends the command: a message for people, an exit status for scripts, and a hint what to do next. */
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
  'Log in again with "agentweaver login --url URL", or set AGENTWEAVER_URL and AGENTWEAVER_API_KEY together.'

const LIST_HINT = 'List them with "agentweaver runs" and "agentweaver sandbox ls".'

const BAD_ID = new CliError('This is not an id. An id is run_ or sbx_ and 32 hexadecimal digits.', {
  status: EXIT.usage,
  hint: LIST_HINT,
})

/** Codes that add nothing to their message. All other codes are printed, so that they can be searched for. */
const PLAIN_CODES: ReadonlySet<ErrorCode> = new Set([
  'invalid_request',
  'not_found',
  'conflict',
  'workspace_invalid',
])

function wordsOf(error: SandboxError): string {
  const fields = error instanceof ProblemError ? error.errors : []
  if (fields.length > 0)
    return [
      'The service does not accept these values:',
      ...fields.map(({ field, message }) => `  ${typedField(field)}: ${typedWords(message)}`),
    ].join('\n')
  const words = sentence(typedWords(error.message))
  return PLAIN_CODES.has(error.code) ? words : `${words} (${error.code})`
}

function hintOf(error: SandboxError, status: ExitStatus): { hint?: string } {
  if (status === EXIT.unauthenticated) return { hint: KEY_HINT }
  return /^there is no (?:such )?(?:run|sandbox)\b/i.test(error.message) ? { hint: LIST_HINT } : {}
}

/** The service rejected only the id that the person typed. */
const isBadId = (error: unknown): boolean =>
  error instanceof ProblemError && error.errors.length === 1 && error.errors[0]?.field === 'id'

/** Converts an error to a `CliError`. Returns undefined for an unexpected error, which is a bug. */
export function toCliError(error: unknown): CliError | undefined {
  if (error instanceof CliError) return error
  if (isBadId(error)) return BAD_ID
  if (!(error instanceof SandboxError)) return undefined
  const status = exitStatusOf(error.code)
  return new CliError(wordsOf(error), { status, cause: error, ...hintOf(error, status) })
}
