import type { FastifySchema } from 'fastify'
import * as z from 'zod'
import { RunId } from '../../../contracts/api.ts'
import { PROBLEM_MEDIA_TYPE, Problem } from '../../../contracts/errors.ts'
import { RunEnvelope } from '../../../contracts/events.ts'
import { IDEMPOTENCY_HEADER } from '../../../contracts/routes.ts'

export const RunParams = z.object({ id: RunId })

/** JSON Schema for schemas that validate with code and cannot be converted. */
export const DESCRIPTIONS = z.registry<Record<string, unknown>, z.core.$ZodType>()

function describedAs<T extends z.ZodType>(schema: T, description: Record<string, unknown>): T {
  DESCRIPTIONS.add(schema, description)
  return schema
}

const MAX_DIGITS = 15
/** The largest whole number in a query. */
export const MAX_WHOLE_NUMBER = 10 ** MAX_DIGITS - 1

/** A whole number in a query. Rejects `''`, `1e3` and `0x10`, which `Number` would accept. */
export function wholeNumber({ min = 0, max = MAX_WHOLE_NUMBER }: { min?: number; max?: number } = {}) {
  const schema = z
    .string()
    .regex(new RegExp(`^\\d{1,${MAX_DIGITS}}$`), 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max))
  return describedAs(schema, { type: 'integer', minimum: min, maximum: max })
}

const BINARY = { type: 'string', format: 'binary' }

/** A binary response. */
export const bytesOf = (mediaType: string) => ({
  content: { [mediaType]: { schema: describedAs(z.any(), BINARY) } },
})

/** A binary body, as created by the content type parser: a `Buffer` or a `Readable`. */
export const bytesBody = <T>(Class: abstract new (...args: never[]) => T, error: string) =>
  describedAs(
    z.custom<T>((value) => value instanceof Class, { error }),
    BINARY,
  )

export const EVENT_STREAM = 'text/event-stream'
export const JSON_DOCUMENT = 'application/json'

/** A response of server-sent events. The `data` of each frame is an envelope; the frame's id is its sequence. */
export const eventStream = { content: { [EVENT_STREAM]: { schema: RunEnvelope } } }

const problem = { content: { [PROBLEM_MEDIA_TYPE]: { schema: Problem } } }
const describedProblem = (description: string) => ({ description, ...problem })

/** Possible problems of every guarded route. */
const COMMON_PROBLEMS = {
  400: describedProblem('The request is malformed; `errors` names each field.'),
  401: describedProblem('The API key is missing or not valid.'),
  429: describedProblem('Too many requests, runs or streams.'),
  500: describedProblem('Internal error; the log has the cause under the request id.'),
} as const

const MORE_PROBLEMS = {
  403: describedProblem('The caller is not permitted to do this.'),
  404: describedProblem('Not found, or owned by another owner.'),
  409: describedProblem('Not possible in the current state.'),
  413: describedProblem('The body is too large.'),
  415: describedProblem('The route does not accept this media type.'),
  502: describedProblem(
    'The sandbox of the run or another server that the request needs has failed or refused.',
  ),
  503: describedProblem('Temporarily unavailable; try again.'),
} as const

type ProblemStatus = keyof typeof MORE_PROBLEMS

/** Response schemas for the problems of a route. */
export function problems<S extends ProblemStatus>(...statuses: S[]) {
  const more = Object.fromEntries(statuses.map((status) => [status, MORE_PROBLEMS[status]]))
  return { ...COMMON_PROBLEMS, ...(more as Pick<typeof MORE_PROBLEMS, S>) }
}

/** Headers of every mutation. Loose, so that other headers pass. */
export const MutationHeaders = z.looseObject({
  [IDEMPOTENCY_HEADER]: z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, 'must be 1 to 255 visible ASCII characters')
    .optional()
    .describe('A repeated request with the same key gets the first response.'),
})

export const GUARDED: Pick<FastifySchema, 'security'> = { security: [{ apiKey: [] }] }
/** For routes without a key. If it is missing, generators assume that a key is needed. */
export const OPEN: Pick<FastifySchema, 'security'> = { security: [] }
