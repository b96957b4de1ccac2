import * as z from 'zod'

export const READING = ['GET', 'HEAD'] as const
export const Method = z.enum(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** What a path may contain without percent-encoding (RFC 3986), without `;`, after which some servers cut a segment. */
const SEGMENT = /^[A-Za-z0-9._~!$&'()*+,=:@-]+$/

/**
 * A pattern for the path of a request: `*` stands for any characters of one segment, and `**` as the last segment for
 * the rest.
 */
const PathPattern = z
  .string()
  .max(512)
  .superRefine((pattern, context) => {
    const fault = patternFault(pattern)
    if (fault !== undefined) context.addIssue({ code: 'custom', message: `"${pattern}" ${fault}` })
  })

function patternFault(pattern: string): string | undefined {
  if (!pattern.startsWith('/')) return 'must start with "/"'
  const segments = pattern.slice(1).split('/')
  const inner = segments.slice(0, -1)
  if (inner.includes('')) return 'has an empty segment'
  if (inner.some((segment) => segment.includes('**')) || /\*\*./.test(pattern) || /[^/]\*\*/.test(pattern))
    return 'may have "**" only as the last segment'
  if (segments.some((segment) => /^\.+$/.test(segment))) return 'has a segment of dots only'
  return segments.every(
    (segment, index) => SEGMENT.test(segment) || (segment === '' && index === inner.length),
  )
    ? undefined
    : 'has a character that a path cannot contain; write it without percent-encoding, query and ";"'
}

export const Paths = z.array(PathPattern).min(1).max(64)

/** Requests of one kind: methods, and the paths for which they are allowed. */
export const Requests = z
  .array(z.strictObject({ methods: z.array(Method).min(1), paths: Paths }))
  .min(1)
  .max(32)

export interface RequestLimits {
  readonly mode: 'read-only' | 'full'
  readonly methods?: readonly z.infer<typeof Method>[] | undefined
  readonly paths?: readonly string[] | undefined
  readonly requests?: z.infer<typeof Requests> | undefined
}

/** Methods of requests for which no paths are listed. */
export const methodsOf = ({ mode, methods, requests }: RequestLimits): string[] | 'any' => {
  if (requests) return [...new Set(requests.flatMap((one) => one.methods))]
  return methods ? [...methods] : mode === 'read-only' ? [...READING] : 'any'
}

/** The allowed requests by method and path. Undefined if every path is allowed. */
export function requestsOf(
  limits: RequestLimits,
): { methods: string[] | 'any'; paths: string[] }[] | undefined {
  const { paths, requests } = limits
  if (requests) return requests.map((one) => ({ methods: [...one.methods], paths: [...one.paths] }))
  return paths && [{ methods: methodsOf(limits), paths: [...paths] }]
}

/** Whether an entry limits requests, so that a proxy must read them. */
export const limitsRequests = ({ mode, methods, paths, requests }: RequestLimits): boolean =>
  mode === 'read-only' || methods !== undefined || paths !== undefined || requests !== undefined
