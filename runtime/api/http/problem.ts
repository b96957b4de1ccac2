import { STATUS_CODES } from 'node:http'
import type { FastifyError } from 'fastify'
import { ERROR_STATUS, type ErrorCode, type Problem } from '../../../contracts/errors.ts'
import { SandboxError } from '../../kit/errors.ts'

/** A rejected request with the list of its invalid fields. */
export class InvalidRequest extends SandboxError {
  readonly errors: readonly { readonly field: string; readonly message: string }[]

  constructor(message: string, errors: readonly { field: string; message: string }[] = []) {
    super('invalid_request', message)
    this.errors = errors
  }
}

/** Error codes for requests that Fastify rejects before a handler runs. */
const FASTIFY_CODES: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'payload_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
}

/** Detail of server errors, because internals belong only in the log. */
const FAULT_DETAIL = 'The service could not do this. Its log has the cause under the request id.'
/**
 * Server errors whose own text the caller gets. It says that the work may have been done, or what a vault answered; such a text
 * contains a status and a code, and no name of a secret.
 */
const EXPLAINED: ReadonlySet<ErrorCode> = new Set([
  'outcome_unknown',
  'credential_unavailable',
  'credential_forbidden',
])

/** Converts an error to problem details for the caller. */
export function toProblem(error: unknown, requestId: string): Problem {
  const { code, detail, errors } = describe(error)
  const status = ERROR_STATUS[code]
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? code,
    status,
    code,
    detail: status < 500 || EXPLAINED.has(code) ? detail : FAULT_DETAIL,
    requestId,
    ...(errors.length > 0 && { errors: [...errors] }),
  }
}

type Description = { code: ErrorCode; detail: string; errors: Problem['errors'] & object }

function describe(error: unknown): Description {
  if (error instanceof InvalidRequest) {
    return { code: error.code, detail: error.message, errors: [...error.errors] }
  }
  if (error instanceof SandboxError) return { code: error.code, detail: error.message, errors: [] }
  if (!isFastifyError(error)) return { code: 'internal', detail: '', errors: [] }
  if (error.validation) return describeInvalid(error)
  const code = FASTIFY_CODES[error.code] ?? (error.statusCode === 400 ? 'invalid_request' : 'internal')
  return { code, detail: error.message, errors: [] }
}

const isFastifyError = (error: unknown): error is FastifyError =>
  error instanceof Error && 'code' in error && 'statusCode' in error

/** Fastify's names for the parts of a request, and the names in our messages. */
const CONTEXTS: Readonly<Record<string, string>> = {
  body: 'body',
  params: 'path',
  querystring: 'query',
  headers: 'headers',
}

/** Lists every schema issue with its field. An unknown key is listed as a field. */
function describeInvalid({ validation = [], validationContext = 'body' }: FastifyError): Description {
  const errors = validation.flatMap((issue) => {
    const path = issue.instancePath.split('/').filter(Boolean)
    if (issue.keyword !== 'unrecognized_keys')
      return [{ field: path.join('.'), message: issue.message ?? '' }]
    const keys = Array.isArray(issue.params['keys']) ? issue.params['keys'] : []
    return keys.map((key) => ({ field: [...path, key].join('.'), message: 'is not a known key' }))
  })
  const fields = errors.map(({ field }) => field || `(the ${validationContext})`).join(', ')
  return {
    code: 'invalid_request',
    detail: `Invalid fields in the ${CONTEXTS[validationContext] ?? validationContext}: ${fields}`,
    errors,
  }
}
