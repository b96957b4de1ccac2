import type { Plan, PlannedResource } from '../../contracts/planned-resource.ts'
import type { PolicySettings, StackEnvironment } from './settings.ts'

/** A violation: the resource, the property, and a message with the correction. */
export interface Problem {
  readonly urn: string
  /** Property path as a program spells it: `networkProfile.networkPolicy`. Empty if the whole resource is meant. */
  readonly path: string
  readonly message: string
}

/** A problem and the rule that found it. `advisory` findings are reported and do not stop the deployment. */
export interface Finding extends Problem {
  readonly rule: string
  readonly level: 'mandatory' | 'advisory'
}

/**
 * A resource as rules read it. The engine lists the resources that each property comes from, even for known values; a
 * plan lists them only in its unknown values.
 */
export interface RuledResource extends PlannedResource {
  readonly propertyDependencies?: Readonly<Record<string, readonly string[]>>
}

export interface RuledPlan extends Plan {
  readonly resources: readonly RuledResource[]
}

export interface RuleContext {
  readonly environment: StackEnvironment
  readonly settings: PolicySettings
}

export interface ResourceCheck {
  /** Type tokens at azure-native's default API version. If absent, the check applies to every azure-native resource. */
  readonly types?: readonly string[]
  readonly check: (resource: RuledResource, context: RuleContext) => readonly Problem[]
}

export type StackCheck = (plan: RuledPlan, context: RuleContext) => readonly Problem[]

export interface StackRule {
  /**
   * Number in `docs/stack-policy.md`. A requirement with two enforcement levels consists of two rules with the same number.
   */
  readonly number: number
  readonly name: string
  readonly level: 'mandatory' | 'advisory'
  /** The requirement in one sentence. */
  readonly requires: string
  /** What the rule prevents or makes possible. */
  readonly reason: string
  readonly resource?: ResourceCheck
  readonly stack?: StackCheck
  /** The rule runs on plans only, because the engine does not send its input to a policy pack. */
  readonly planOnly?: true
}
