import type {
  PolicyResource,
  PolicyResourceOptions,
  ResourceValidationArgs,
  StackValidationArgs,
} from '@pulumi/policy'
import type { PlannedValue } from '../../contracts/planned-resource.ts'
import { NAME_LIMITS } from './names.ts'
import { typeOf } from './read.ts'
import type { RuledPlan, RuledResource } from './rule.ts'

/** What stands for unknown values of each type on the wire (`@pulumi/policy`, proxy.js). */
const UNKNOWNS = new Set([
  '1c4a061d-8072-4f0a-a4cb-0ff528b18fe7',
  '3eeb2bf0-c639-47a8-9e75-3b44932eb421',
  '04da6b54-80e4-46f7-96ec-b56ff0331ba9',
  '6a19a0b0-7e62-4c92-b797-7f8e31da9cc2',
  '030794c1-ac77-496b-92df-f27374a8bd58',
  'e48ece36-62e2-4504-bad9-02848725956a',
  'dd056dcd-154b-4c76-9bd3-c8f88648b5ff',
])

/**
 * The value behind the proxy of the policy SDK. The proxy throws where a value is unknown, and the SDK turns that into
 * an advice; a rule must be able to refuse.
 */
const BEHIND = '__getSpecialProxyTarget'

/** A resource before it is made or changed, as the engine shows it: its inputs, and nothing of the others. */
export function resourceFromEngine(args: ResourceValidationArgs): RuledResource {
  return { ...common(args), inputs: inputsOf(args.props, {}), dependencies: [], ...optionsOf(args.opts) }
}

/**
 * All resources at the end of a run. What the engine shows of each are its outputs, where Azure leaves out the parts of
 * its path: a name stands under `name`, and what else is left out is known by where it came from.
 */
export function planFromEngine(args: StackValidationArgs): RuledPlan {
  const resources = args.resources.map((resource) => fromState(resource))
  const { stack, project } = placeOf(resources[0]?.urn ?? '')
  return { project, stack, resources, outputs: {} }
}

function fromState(resource: PolicyResource): RuledResource {
  const origins = Object.fromEntries(
    Object.entries(resource.propertyDependencies).map(([key, from]) => [key, from.map(({ urn }) => urn)]),
  )
  return {
    ...common(resource),
    inputs: named(resource.type, inputsOf(resource.props, origins)),
    dependencies: resource.dependencies.map(({ urn }) => urn).toSorted(),
    propertyDependencies: origins,
    ...optionsOf(resource.opts),
    ...(resource.parent && { parent: resource.parent.urn }),
  }
}

type Inputs = { readonly [key: string]: PlannedValue }

/** With the name where a program writes it. */
function named(type: string, inputs: Inputs): Inputs {
  const property = NAME_LIMITS[typeOf({ type }).replace('azure-native:', '')]?.property
  const name = inputs['name']
  if (property === undefined || name === undefined || inputs[property] !== undefined) return inputs
  return { ...inputs, [property]: name }
}

/** The stack and project of a URN; empty for what is none, which is held to production's rules. */
export function placeOf(urn: string): { readonly stack: string; readonly project: string } {
  const [, stack = '', project = ''] = /^urn:pulumi:([^:]+)::([^:]+)::/.exec(urn) ?? []
  return { stack, project }
}

function common({ urn, type, name }: { readonly urn: string; readonly type: string; readonly name: string }) {
  return { urn, type, name, custom: true, retainOnDelete: false }
}

function optionsOf({ protect, ignoreChanges }: PolicyResourceOptions) {
  return { protect, ignoreChanges }
}

function inputsOf(
  props: Readonly<Record<string, unknown>>,
  origins: Readonly<Record<string, readonly string[]>>,
): Inputs {
  const plain = (props[BEHIND] ?? props) as Readonly<Record<string, unknown>>
  return Object.fromEntries(
    Object.entries(plain).map(([key, value]) => [key, planned(value, (origins[key] ?? []).join(', '))]),
  )
}

function planned(value: unknown, from: string): PlannedValue {
  if (typeof value === 'string') return UNKNOWNS.has(value) ? { $unknown: from } : value
  if (Array.isArray(value)) return value.map((item) => planned(item, from))
  if (typeof value !== 'object' || value === null) return value === undefined ? null : (value as PlannedValue)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, planned(inner, from)]))
}
