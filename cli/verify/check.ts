import type { Environment } from '../../charts-src/environment/schema.ts'
import type { SandboxKind } from '../../contracts/names.ts'
import type { CallProgram } from '../program-call/call-program.ts'
import type { Listed } from './listed.ts'
import type { Outcome } from './outcome.ts'
import type { Sandbox, Target } from './sandbox.ts'

export interface Verified extends Outcome {
  readonly check: string
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
