/** Result of one check. For `not run`, the detail says why; it never counts as a pass. */
export interface Outcome {
  readonly state: 'pass' | 'fail' | 'not run'
  readonly detail: string
  /** Measured values, for scripts. */
  readonly measured?: unknown
}

/** Thrown if a check lacks something that it needs. The check then counts as `not run`. */
export class NotRun extends Error {}

export const pass = (detail: string, measured?: unknown): Outcome => outcome('pass', detail, measured)
export const fail = (detail: string, measured?: unknown): Outcome => outcome('fail', detail, measured)
export const notRun = (detail: string): Outcome => outcome('not run', detail, undefined)

const outcome = (state: Outcome['state'], detail: string, measured: unknown): Outcome => ({
  state,
  detail,
  ...(measured === undefined ? {} : { measured }),
})

/** Fails with the list of problems, or passes if it is empty. */
export const verdict = (wrong: readonly string[], right: string, measured?: unknown): Outcome =>
  wrong.length === 0 ? pass(right, measured) : fail(wrong.join('; '), measured)
