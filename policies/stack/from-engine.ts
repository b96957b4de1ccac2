import type { PolicyResourceOptions, ResourceValidationArgs, StackValidationArgs } from '@pulumi/policy'
import type { PlannedValue } from '../../contracts/planned-resource.ts'
import { isAzure } from './read.ts'
import type { RuledPlan, RuledResource } from './rule.ts'

/** Placeholders for unknown values, one per type, in the engine's protocol (`@pulumi/policy`, proxy.js). */
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
 * Property that returns the raw value behind the proxy of the policy SDK. The proxy throws on an unknown value, and the
 * SDK turns the exception into an advisory finding, but a rule must be able to fail.
 */
const BEHIND = '__getSpecialProxyTarget'

type Properties = Readonly<Record<string, unknown>>
type Origins = Readonly<Record<string, readonly string[]>>

/**
 * Collects one preview or update from the engine, which sends each resource with its inputs (`Analyze`) and then all
 * resources with their outputs (`AnalyzeStack`). Rules read inputs only: azure-native omits path parameters
 * (`resourceName`, `configName`) from outputs, and during a preview most outputs are unknown. Inputs are therefore kept
 * by URN until the end. The engine starts a new pack process for each preview and each update.
 */
export function createEngineView() {
  const inputs = new Map<string, Properties>()
  return {
    /** Returns a resource before it is created or changed, or undefined for a resource that `--target` excludes. */
    resource(args: ResourceValidationArgs): RuledResource | undefined {
      const properties = behind(args.props)
      inputs.set(args.urn, properties)
      if (isLeftOut(args, properties)) return undefined
      return {
        ...common(args),
        ...optionsOf(args.opts),
        inputs: planned(properties, {}),
        dependencies: [],
      }
    },
    /**
     * Returns all resources at the end, with their inputs. For some resources the engine sends no inputs: the program
     * no longer contains them, but `--target` keeps them. They are checked by their properties in the state.
     */
    plan({ resources }: StackValidationArgs): RuledPlan {
      const made = resources.filter((one) => !isLeftOut(one, inputs.get(one.urn)))
      const all = made.map((resource): RuledResource => {
        const origins = Object.fromEntries(
          Object.entries(resource.propertyDependencies).map(([key, from]) => [
            key,
            from.map(({ urn }) => urn),
          ]),
        )
        return {
          ...common(resource),
          ...optionsOf(resource.opts),
          inputs: planned(inputs.get(resource.urn) ?? behind(resource.props), origins),
          dependencies: resource.dependencies.map(({ urn }) => urn).toSorted(),
          propertyDependencies: origins,
          ...(resource.parent && { parent: resource.parent.urn }),
        }
      })
      return { ...placeOf(resources[0]?.urn ?? ''), resources: all, outputs: {} }
    },
  }
}

/**
 * The engine sends empty inputs for a resource that does not exist yet and that `--target` excludes. Every other
 * resource has at least one input, because the provider's check adds the API version.
 */
const isLeftOut = ({ type }: Pick<RuledResource, 'type'>, properties: Properties | undefined): boolean =>
  isAzure({ type }) && properties !== undefined && Object.keys(properties).length === 0

/** Returns the stack and project of a URN. Both are empty for an invalid URN, which the rules treat as production. */
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

const behind = (props: Properties): Properties => (props[BEHIND] ?? props) as Properties

function planned(properties: Properties, origins: Origins): { readonly [key: string]: PlannedValue } {
  return Object.fromEntries(
    Object.entries(properties).map(([key, value]) => [
      key,
      plannedValue(value, (origins[key] ?? []).join(', ')),
    ]),
  )
}

function plannedValue(value: unknown, from: string): PlannedValue {
  if (typeof value === 'string') return UNKNOWNS.has(value) ? { $unknown: from } : value
  if (Array.isArray(value)) return value.map((item) => plannedValue(item, from))
  if (typeof value !== 'object' || value === null) return value === undefined ? null : (value as PlannedValue)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plannedValue(inner, from)]))
}
