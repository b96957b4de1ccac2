import type { Environment } from '../../charts-src/environment/schema.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { CallProgram } from '../program-call/call-program.ts'
import type { Listed } from './listed.ts'
import type { Sandbox } from './sandbox.ts'

/** What came of one check. `not run` says why in its detail; it is never a pass. */
export interface Outcome {
  readonly state: 'pass' | 'fail' | 'not run'
  readonly detail: string
  /** What was measured, for scripts. */
  readonly measured?: unknown
}

export interface Verified extends Outcome {
  readonly check: string
}

/** A host, or address, and a port. */
export interface Target {
  readonly host: string
  readonly port: number
}

/** What every check may look at. */
export interface Stage {
  readonly environment: Environment
  /** The stack file's pools by name, where the file is there. */
  readonly pools:
    | ReadonlyMap<string, { readonly min: number; readonly max: number; readonly size: string }>
    | undefined
  readonly call: CallProgram
  readonly kubectl: Kubectl
  /** A sandbox of a class, made when first asked for, and one for all checks. Throws `NotRun` without a service. */
  sandbox(kind: SandboxKind): Promise<Sandbox>
  /** Another one without an agent, for this check alone, which has to destroy it. */
  anotherSandbox(): Promise<Sandbox>
  /** What shows that the probe works; undefined if the policy lists nothing that a pod of a class may reach. */
  readonly listed: Listed | undefined
  readonly unlisted: Target
  readonly claims: number
  readonly warmMs: number
}

/** An object of the cluster, or a list of them, as JSON. */
export type Kubectl = (...args: readonly string[]) => Promise<unknown>

export interface Check {
  readonly id: string
  /** What it shows, in a sentence. */
  readonly shows: string
  run(stage: Stage): Promise<Outcome>
}

/** Something that a check needs is not here. Thrown, it makes the check `not run`, never a failure or a pass. */
export class NotRun extends Error {}

export const pass = (detail: string, measured?: unknown): Outcome => outcome('pass', detail, measured)
export const fail = (detail: string, measured?: unknown): Outcome => outcome('fail', detail, measured)
export const notRun = (detail: string): Outcome => outcome('not run', detail, undefined)

const outcome = (state: Outcome['state'], detail: string, measured: unknown): Outcome => ({
  state,
  detail,
  ...(measured === undefined ? {} : { measured }),
})

/** A pass with what was seen, or a failure with what was found wrong. */
export const verdict = (wrong: readonly string[], right: string, measured?: unknown): Outcome =>
  wrong.length === 0 ? pass(right, measured) : fail(wrong.join('; '), measured)
