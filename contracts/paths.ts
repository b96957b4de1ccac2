import * as z from 'zod'

/**
 * Every segment on its own: none is `..`, none holds a control character. `.` and `$` are avoided, because `.` stops at a
 * line feed and would let a path hide segments behind one.
 */
const SEGMENTS = /^(?:\/(?!\.\.(?:\/|$))[^/\p{Cc}]*)+$/u

/** An absolute path in a policy, a request or the operator's configuration. Its spelling says nothing of links. */
export const AbsolutePath = z
  .string()
  .max(4096)
  .regex(SEGMENTS, 'must be an absolute path without ".." and control characters')

/**
 * A folder of the operator's ceiling: its spelling, and the real path that it had when the service started. An agent
 * may be able to replace a folder later, but not the operator's decision.
 */
export const HostRoot = z.strictObject({ path: AbsolutePath, real: AbsolutePath })
export type HostRoot = z.infer<typeof HostRoot>
