import type { PolicyResource, ResourceValidationArgs } from '@pulumi/policy'
import type { PlannedValue } from '../../../contracts/planned-resource.ts'
import { createEngineView } from '../../../policies/stack/from-engine.ts'
import type { RuledPlan, RuledResource } from '../../../policies/stack/rule.ts'
import { type Recorded, readRecording } from './recording.ts'

/** A recorded run of the real engine as rules receive it from the pack's code. No rule reports a violation in it. */
export function recordedPlan(name = 'prod-new'): RuledPlan {
  const { resources } = readRecording(name)
  const view = createEngineView()
  for (const one of resources) if (one.inputs !== undefined) view.resource(shown(one, one.inputs) as never)
  const all = new Map(
    resources.map((one) => [one.urn, shown(one, one.outputs ?? {}) as unknown as PolicyResource]),
  )
  const found = (urns: readonly string[] = []) => urns.flatMap((urn) => all.get(urn) ?? [])
  for (const { urn, parent = '', dependencies, origins = {} } of resources)
    Object.assign(all.get(urn) as object, {
      parent: all.get(parent),
      dependencies: found(dependencies),
      propertyDependencies: Object.fromEntries(
        Object.entries(origins).map(([key, urns]) => [key, found(urns)]),
      ),
    })
  return view.plan({ resources: [...all.values()] } as never)
}

function shown({ urn, type, name, protect, ignoreChanges = [] }: Recorded, props: object) {
  const opts = {
    protect: protect === true,
    ignoreChanges: [...ignoreChanges],
  } as unknown as ResourceValidationArgs['opts']
  return { urn, type, name, props: marked(props) as Record<string, unknown>, opts }
}

/** The mark stays without its value, as in an offline plan: there the rule about secrets reads it. */
function marked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(marked)
  if (typeof value !== 'object' || value === null) return value
  if ('4dabf18193072939515e22adb298388d' in value) return { $secret: true }
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, marked(inner)]))
}

/** A plan with one changed value of one resource. Without a value, the property is removed. */
export function changed(
  plan: RuledPlan,
  of: string,
  [path, value]: readonly [string, PlannedValue | undefined],
): RuledPlan {
  const resources = plan.resources.map((resource) => {
    if (`${resource.type.replace('azure-native:', '')} ${resource.name}` !== of) return resource
    const { propertyDependencies: origins = {}, ...copy } = structuredClone(resource)
    if (path.startsWith('!'))
      return { ...copy, propertyDependencies: origins, [path.slice(1)]: value } as RuledResource
    const keys = path.split(/[.[\]]+/).filter((key) => key !== '')
    set(copy.inputs as Record<string, unknown>, keys, value)
    // The new value has a different origin: the one in its `$unknown` marker, or none.
    const { [keys[0] ?? '']: _, ...others } = origins
    return { ...copy, propertyDependencies: others }
  })
  if (JSON.stringify(resources) === JSON.stringify(plan.resources))
    throw new Error(`${of} ${path} changes nothing`)
  return { ...plan, resources }
}

function set(target: Record<string, unknown>, [key = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length > 0) {
    target[key] ??= {}
    set(target[key] as Record<string, unknown>, rest, value)
  } else if (value === undefined) delete target[key]
  else target[key] = value
}
