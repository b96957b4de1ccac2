import { isUnknown, type PlannedValue } from '../../contracts/planned-resource.ts'
import { isAzure, problem, typeOf } from './read.ts'
import type { Finding, Problem, RuleContext, RuledPlan, RuledResource, StackRule } from './rule.ts'
import { ACCESS_RULES } from './rules/access.ts'
import { CLUSTER_RULES } from './rules/cluster.ts'
import { CONVENTION_RULES } from './rules/conventions.ts'
import { DATA_RULES } from './rules/data.ts'
import { KATA_RULES } from './rules/kata.ts'
import { POOL_RULES } from './rules/pools.ts'
import { OTHER_RULES } from './rules/secrets-and-cost.ts'
import { DEFAULT_SETTINGS, environmentOf, type PolicySettings } from './settings.ts'

/** All rules, by number. */
export const STACK_RULES: readonly StackRule[] = [
  ...KATA_RULES,
  ...CLUSTER_RULES,
  ...POOL_RULES,
  ...DATA_RULES,
  ...ACCESS_RULES,
  ...CONVENTION_RULES,
  ...OTHER_RULES,
].toSorted((a, b) => a.number - b.number)

/** Returns all violations of a plan, in the order of the rules. */
export function checkStack(plan: RuledPlan, settings: PolicySettings = DEFAULT_SETTINGS): Finding[] {
  const context: RuleContext = { environment: environmentOf(plan.stack), settings }
  return STACK_RULES.flatMap((rule) => [
    ...plan.resources.flatMap((resource) => checkResource(rule, resource, context)),
    ...checkWhole(rule, plan, context),
  ])
}

/**
 * Checks one rule on one resource; returns nothing if the rule is about another type. The origins of unknown values are
 * removed first: the engine sends them only at the end of a run, and a plan must not give other findings than the
 * policy pack.
 */
export function checkResource(rule: StackRule, resource: RuledResource, context: RuleContext): Finding[] {
  const { check, types } = rule.resource ?? {}
  const isMeant = types === undefined ? isAzure(resource) : types.includes(typeOf(resource))
  if (check === undefined || !isMeant) return []
  return attempt(rule, resource, () => check(withoutOrigins(resource), context))
}

/** Checks one rule on a whole plan. */
export function checkWhole(rule: StackRule, plan: RuledPlan, context: RuleContext): Finding[] {
  const [first] = plan.resources
  const { stack } = rule
  return stack === undefined || first === undefined ? [] : attempt(rule, first, () => stack(plan, context))
}

/** A rule that throws counts as violated. */
function attempt(rule: StackRule, at: RuledResource, check: () => readonly Problem[]): Finding[] {
  const named = (found: Problem): Finding => ({ ...found, rule: rule.name, level: rule.level })
  try {
    return check().map(named)
  } catch (error) {
    return [
      named(
        problem(at, '', `the rule itself failed: ${error instanceof Error ? error.message : String(error)}`),
      ),
    ]
  }
}

function withoutOrigins(resource: RuledResource): RuledResource {
  const { propertyDependencies: _, ...rest } = resource
  return { ...rest, inputs: hideOrigins(resource.inputs) as RuledResource['inputs'] }
}

function hideOrigins(value: PlannedValue): PlannedValue {
  if (isUnknown(value)) return { $unknown: '' }
  if (Array.isArray(value)) return value.map(hideOrigins)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, hideOrigins(inner)]))
}
