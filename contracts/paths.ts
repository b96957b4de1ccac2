import * as z from 'zod'

/**
 * Checks each segment: it must not be `..` and must not contain a control character. The pattern avoids `.` and `$`,
 * because `.` does not match a line feed and could skip the segments behind one.
 */
const SEGMENTS = /^(?:\/(?!\.\.(?:\/|$))[^/\p{Cc}]*)+$/u

/** An absolute path in a policy, a request or the operator's configuration. This does not resolve symbolic links. */
export const AbsolutePath = z
  .string()
  .max(4096)
  .regex(SEGMENTS, 'must be an absolute path without ".." and control characters')

/**
 * A folder of the operator's ceiling: the configured path, and its real path when the service started. An agent may be
 * able to replace the folder later; the stored real path makes that ineffective.
 */
export const HostRoot = z.strictObject({ path: AbsolutePath, real: AbsolutePath })
export type HostRoot = z.infer<typeof HostRoot>
