import { isSecret, isUnknown, type PlannedValue } from '../../contracts/planned-resource.ts'
import type { Problem, RuledPlan, RuledResource } from './rule.ts'

/**
 * Returns the type token at the default API version. A package for another API version uses separate tokens for the
 * same resources.
 */
export function typeOf({ type }: Pick<RuledResource, 'type'>): string {
  return type.replace(/^azure-native_[a-z0-9]+_v[a-z0-9]+:/, 'azure-native:')
}

export const isAzure = (resource: Pick<RuledResource, 'type'>) => typeOf(resource).startsWith('azure-native:')

export function ofType(plan: RuledPlan, ...types: readonly string[]): RuledResource[] {
  return plan.resources.filter((resource) => types.includes(typeOf(resource)))
}

/**
 * Returns the value at a path such as `agentPoolProfiles[0].mode`. Everything below an unknown value is unknown too.
 */
export function valueAt(inputs: PlannedValue | undefined, path: string): PlannedValue | undefined {
  const keys = path.split(/[.[\]]+/).filter((key) => key !== '')
  return keys.reduce<PlannedValue | undefined>((value, key) => {
    if (value === undefined || isMarked(value)) return value
    return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
      ? (value as Readonly<Record<string, PlannedValue>>)[key]
      : undefined
  }, inputs)
}

/** Whether a value is hidden: unknown during planning, or secret. */
export function isMarked(value: PlannedValue | undefined): boolean {
  return isUnknown(value) || isSecret(value)
}

/** Whether a value and everything inside it can be read. */
export function isKnown(value: PlannedValue | undefined): boolean {
  if (isMarked(value)) return false
  return typeof value !== 'object' || value === null || Object.values(value).every(isKnown)
}

export interface Demand {
  readonly holds: (value: PlannedValue | undefined) => boolean
  /** The correction, as the end of a sentence: `set it to true`. */
  readonly remedy: string
}

/**
 * Checks the value at a path. A value that is unknown during planning fails the check, with a message that it could not
 * be read.
 */
export function demand(resource: RuledResource, path: string, { holds, remedy }: Demand): Problem[] {
  const value = valueAt(resource.inputs, path)
  if (!isKnown(value)) {
    return [
      problem(
        resource,
        path,
        `is not known while planning, so the rule cannot check it: use a constant; ${remedy}`,
      ),
    ]
  }
  return holds(value) ? [] : [problem(resource, path, `is ${show(value)}: ${remedy}`)]
}

export function problem({ urn }: RuledResource, path: string, message: string): Problem {
  return { urn, path, message: path === '' ? message : `${path} ${message}` }
}

/** Demands that most rules use. */
export const isTrue: Demand = { holds: (value) => value === true, remedy: 'set it to true' }
export const isNotTrue: Demand = {
  holds: (value) => value === undefined || value === false,
  remedy: 'leave it out or set it to false',
}
export const isFalse: Demand = { holds: (value) => value === false, remedy: 'set it to false' }
export function isOneOf(...allowed: readonly (string | number | undefined)[]): Demand {
  const named = allowed.map((value) => (value === undefined ? 'nothing' : `"${value}"`))
  return { holds: (value) => allowed.includes(value as string), remedy: `set it to ${named.join(' or ')}` }
}
export function isWithin(min: number, max: number): Demand {
  return {
    holds: (value) => typeof value === 'number' && value >= min && value <= max,
    remedy: max === Number.POSITIVE_INFINITY ? `set it to ${min} or more` : `set it to ${min} to ${max}`,
  }
}

const MAX_SHOWN = 80

function show(value: PlannedValue | undefined): string {
  if (value === undefined) return 'not set'
  const text = JSON.stringify(value)
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`
}

export function asList(value: PlannedValue | undefined): readonly PlannedValue[] {
  return Array.isArray(value) ? value : []
}

/** Returns the URNs of the resources that a property's value comes from. */
export function originsOf(plan: RuledPlan, resource: RuledResource, property: string): readonly string[] {
  const texts = [
    ...unknownsIn(resource.inputs[property]),
    ...(resource.propertyDependencies?.[property] ?? []),
  ]
  return plan.resources.map(({ urn }) => urn).filter((urn) => texts.some((text) => standsIn(text, urn)))
}

/** Returns the types of the resources that a property's value comes from. */
export function originTypes(plan: RuledPlan, resource: RuledResource, property: string): readonly string[] {
  const origins = originsOf(plan, resource, property)
  return plan.resources.filter(({ urn }) => origins.includes(urn)).map(typeOf)
}

/** Whether a text contains a URN as a whole word, and not only as the prefix of a longer URN. */
function standsIn(text: string, urn: string, from = 0): boolean {
  const index = text.indexOf(urn, from)
  if (index < 0) return false
  const [before = ' ', after = ' '] = [text[index - 1], text[index + urn.length]]
  return (/[\s,]/.test(before) && !/[A-Za-z0-9_.-]/.test(after)) || standsIn(text, urn, index + 1)
}

function unknownsIn(value: PlannedValue | undefined): readonly string[] {
  if (isUnknown(value)) return [value.$unknown]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(unknownsIn) : []
}
