import type { Plan, PlannedResource } from '../../contracts/planned-resource.ts'
import type { PolicySettings } from './settings.ts'

/** What is wrong: where, and what to write there. */
export interface Problem {
  readonly urn: string
  /** As a program spells it: `networkProfile.networkPolicy`. Empty where the whole resource is meant. */
  readonly path: string
  readonly message: string
}

/** A problem with the rule that found it. `advisory` ones are told and stop nothing. */
export interface Finding extends Problem {
  readonly rule: string
  readonly level: 'mandatory' | 'advisory'
}

/**
 * A resource as rules read it. The engine tells which resources each property comes from even once its value is known;
 * a plan tells it in its unknown values.
 */
export interface RuledResource extends PlannedResource {
  readonly propertyDependencies?: Readonly<Record<string, readonly string[]>>
}

export interface RuledPlan extends Plan {
  readonly resources: readonly RuledResource[]
}

export interface RuleContext {
  /** A stack whose name is none of a development or preview stack is held to production's rules. */
  readonly environment: 'production' | 'development' | 'preview'
  readonly settings: PolicySettings
}

export interface ResourceCheck {
  /** Type tokens at azure-native's default API version; absent where every azure-native resource is meant. */
  readonly types?: readonly string[]
  readonly check: (resource: RuledResource, context: RuleContext) => readonly Problem[]
}

export type StackCheck = (plan: RuledPlan, context: RuleContext) => readonly Problem[]

export interface StackRule {
  /** Where it stands in `docs/stack-policy.md`; a demand of two strengths is two rules of one number. */
  readonly number: number
  readonly name: string
  readonly level: 'mandatory' | 'advisory'
  /** The demand in one sentence. */
  readonly says: string
  /** What would be lost without it. */
  readonly protects: string
  readonly resource?: ResourceCheck
  readonly stack?: StackCheck
  /** Set where the engine does not show a policy pack what the rule reads: it runs on plans alone. */
  readonly planOnly?: true
}
