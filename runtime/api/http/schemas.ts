import type { FastifySchema } from 'fastify'
import * as z from 'zod'
import { RunId } from '../../../contracts/api.ts'
import { PROBLEM_MEDIA_TYPE, Problem } from '../../../contracts/errors.ts'
import { RunEnvelope } from '../../../contracts/events.ts'
import { IDEMPOTENCY_HEADER } from '../../../contracts/routes.ts'

export const RunParams = z.object({ id: RunId })

/** How the OpenAPI document describes a schema whose check is code, which has no JSON Schema of its own. */
export const DESCRIPTIONS = z.registry<Record<string, unknown>, z.core.$ZodType>()

function describedAs<T extends z.ZodType>(schema: T, description: Record<string, unknown>): T {
  DESCRIPTIONS.add(schema, description)
  return schema
}

const MAX_DIGITS = 15
/** The largest whole number that a query takes. */
export const MAX_WHOLE_NUMBER = 10 ** MAX_DIGITS - 1

/** A whole number in a query, where `''`, `1e3` and `0x10` are mistakes. */
export function wholeNumber({ min = 0, max = MAX_WHOLE_NUMBER }: { min?: number; max?: number } = {}) {
  const schema = z
    .string()
    .regex(new RegExp(`^\\d{1,${MAX_DIGITS}}$`), 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max))
  return describedAs(schema, { type: 'integer', minimum: min, maximum: max })
}

const BINARY = { type: 'string', format: 'binary' }

/** A response of bytes. */
export const bytesOf = (mediaType: string) => ({
  content: { [mediaType]: { schema: describedAs(z.any(), BINARY) } },
})

/** A body of bytes, as the parser of its media type makes it: a `Buffer` or a `Readable`. */
export const bytesBody = <T>(Class: abstract new (...args: never[]) => T, error: string) =>
  describedAs(
    z.custom<T>((value) => value instanceof Class, { error }),
    BINARY,
  )

/** A response of server-sent events. The `data` of each frame is one envelope; the id is its sequence. */
export const eventStream = { content: { 'text/event-stream': { schema: RunEnvelope } } }

const problem = { content: { [PROBLEM_MEDIA_TYPE]: { schema: Problem } } }
const describedProblem = (description: string) => ({ description, ...problem })

/** Every guarded route can answer these. */
const COMMON_PROBLEMS = {
  400: describedProblem('The request is malformed; `errors` names each field.'),
  401: describedProblem('No valid API key.'),
  429: describedProblem('Too many requests or runs.'),
  500: describedProblem('A fault of the service; its log has the cause.'),
} as const

const MORE_PROBLEMS = {
  403: describedProblem('Not permitted.'),
  404: describedProblem('There is no such thing, or it belongs to somebody else.'),
  409: describedProblem('Not possible in the present state.'),
  413: describedProblem('Larger than the service takes.'),
  415: describedProblem('Not a media type that this route takes.'),
  502: describedProblem('The sandbox failed.'),
  503: describedProblem('Not now.'),
} as const

type ProblemStatus = keyof typeof MORE_PROBLEMS

/** The problems a route can answer, for its `response` schemas. */
export function problems<S extends ProblemStatus>(...statuses: S[]) {
  const more = Object.fromEntries(statuses.map((status) => [status, MORE_PROBLEMS[status]]))
  return { ...COMMON_PROBLEMS, ...(more as Pick<typeof MORE_PROBLEMS, S>) }
}

/** The header of every mutation. Loose: the other headers must pass. */
export const MutationHeaders = z.looseObject({
  [IDEMPOTENCY_HEADER]: z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, 'must be 1 to 255 visible ASCII characters')
    .optional()
    .describe('Repeating a request with the same key answers what the first one answered.'),
})

export const GUARDED: Pick<FastifySchema, 'security'> = { security: [{ apiKey: [] }] }
/** Of routes that need no key: without it, generators take them for guarded. */
export const OPEN: Pick<FastifySchema, 'security'> = { security: [] }
