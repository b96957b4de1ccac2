import type { Environment } from '../../charts-src/environment/schema.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { CallProgram } from '../program-call/call-program.ts'
import type { Listed } from './listed.ts'
import type { Sandbox } from './sandbox.ts'

/** Result of one check. For `not run`, the detail says why; it never counts as a pass. */
export interface Outcome {
  readonly state: 'pass' | 'fail' | 'not run'
  readonly detail: string
  /** Measured values, for scripts. */
  readonly measured?: unknown
}

export interface Verified extends Outcome {
  readonly check: string
}

export interface Target {
  readonly host: string
  readonly port: number
}

/** What the checks can use. */
export interface CheckInputs {
  readonly environment: Environment
  /** Pools of the stack file by name, or undefined without that file. */
  readonly pools:
    | ReadonlyMap<string, { readonly min: number; readonly max: number; readonly size: string }>
    | undefined
  readonly call: CallProgram
  readonly kubectl: Kubectl
  /** The shared sandbox of a class, created on the first call. Throws `NotRun` without a service. */
  sandbox(kind: SandboxKind): Promise<Sandbox>
  /** A further sandbox without an agent. The caller destroys it. */
  anotherSandbox(): Promise<Sandbox>
  /** Allowed destinations, which prove that the probe works. Undefined if the policy allows pods no destination. */
  readonly listed: Listed | undefined
  readonly unlisted: Target
  readonly claims: number
  readonly warmMs: number
}

/** Runs kubectl and returns its JSON output. */
export type Kubectl = (...args: readonly string[]) => Promise<unknown>

export interface Check {
  readonly id: string
  /** What the check proves, as a sentence. */
  readonly shows: string
  run(inputs: CheckInputs): Promise<Outcome>
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
