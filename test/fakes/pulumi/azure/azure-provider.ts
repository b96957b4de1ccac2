import { setTimeout as delay } from 'node:timers/promises'
import { refusesChange, replacesResource } from '../../../../infra/model/force-new.ts'
import type { Cloud, CloudObject } from '../cloud.ts'
import type { Checked, Compared, Named, StandIn, State } from '../stand-in.ts'
import {
  differences,
  hasUnknown,
  type Json,
  type Properties,
  UNKNOWN,
  valueAt,
  withoutNulls,
  withValueAt,
} from '../values.ts'
import { RpcError, STATUS } from '../wire.ts'
import { addressOf, nameParameterOf, pathParametersOf, templateOf } from './addresses.ts'
import { computedPaths, computedValues, guidOf } from './computed.ts'
import { azureInvoke } from './invokes.ts'
import { oneAtATime, type Refusal, refusalOf } from './rules.ts'
import { type SdkShape, sdkShape } from './sdk-shape.ts'

const NOBODY = '00000000-0000-0000-0000-000000000000'
/** Duration of a write, long enough that two concurrent writes overlap. */
const WRITE_MS = 15
/** Objects that always exist and are only updated: there is no create, and a delete resets them. */
const SINGLETONS = new Set([
  'azure-native:dbforpostgresql:Configuration',
  'azure-native:storage:BlobServiceProperties',
])
const AUTO_NAMED = '__createBeforeDelete'

const fail = ({ status, code, message }: Refusal) =>
  new RpcError(STATUS.unknown, `Status=${status} Code="${code}" Message="${message}"`)
const isRefusal = (value: unknown): value is Refusal =>
  typeof value === 'object' && value !== null && 'status' in value && 'code' in value

function shapeOf(type: string): SdkShape {
  const shape = sdkShape(type)
  if (shape === undefined || templateOf(type) === undefined)
    throw new RpcError(
      STATUS.invalidArgument,
      `the stand-in has no address for ${type}: add it to azure/addresses.ts`,
    )
  return shape
}
const echoed = (shape: SdkShape, inputs: Properties): Properties =>
  Object.fromEntries(Object.entries(inputs).filter(([key]) => shape.outputs.has(key)))

/** Sets a computed path where the SDK has it, and where a nested one has an object to be in. */
function withComputed(
  shape: SdkShape,
  outputs: Properties,
  [path, value]: readonly [string, Json],
): Properties {
  const [root = ''] = path.split('.')
  if (!shape.outputs.has(root)) return outputs
  const isLoose = path.includes('.') && outputs[root] === undefined && !OWN_OBJECTS.has(root)
  return isLoose || hasUnknown(outputs[root] ?? null) ? outputs : withValueAt(outputs, path, value)
}
/** Objects that the service returns even if the program does not set them. */
const OWN_OBJECTS = new Set([
  'metrics',
  'configurationAccess',
  'metricsIngestion',
  'powerState',
  'properties',
])

/** A fake `azure-native` provider: it simulates Azure Resource Manager with objects in a folder. */
export function azureStandIn(cloud: Cloud): StandIn {
  let subscriptionId = NOBODY
  let tenantId = NOBODY
  let defaultLocation: string | undefined

  function outputsOf(type: string, id: string, inputs: Properties): Properties {
    const shape = shapeOf(type)
    const made = computedValues(type, { id, inputs, subscriptionId, tenantId })
    const start = { ...echoed(shape, inputs), azureApiVersion: shape.apiVersion }
    // Values from the program stay unchanged; only inline subnets get their ids.
    const own = [...made].filter(([path]) => path === 'subnets' || valueAt(inputs, path) === undefined)
    return own.reduce<Properties>((outputs, entry) => withComputed(shape, outputs, entry), start)
  }

  /** Replaces the whole object (HTTP PUT): properties that are missing from the inputs are removed. */
  async function put(type: string, id: string, inputs: Properties): Promise<CloudObject> {
    const written = await oneAtATime(type, id, async () => {
      const refusal = refusalOf({ type, id, inputs, cloud })
      if (refusal !== undefined) return refusal
      await delay(WRITE_MS)
      const object = { id, type, inputs, outputs: outputsOf(type, id, inputs) }
      cloud.put(object)
      return object
    })
    if (isRefusal(written)) throw fail(written)
    return written
  }

  function defaults({ urn, type, name }: Named, olds: Properties, news: Properties): Properties {
    const shape = shapeOf(type)
    const key = nameParameterOf(type)
    const isNamed = key === '' || news[key] !== undefined || !shape.inputs.has(key)
    const made = isNamed
      ? {}
      : { [key]: olds[key] ?? `${name}${guidOf(urn).slice(0, 8)}`, [AUTO_NAMED]: true }
    const location = olds['location'] ?? defaultLocation ?? groupLocation(news)
    const placed =
      shape.inputs.has('location') && news['location'] === undefined && location !== undefined
        ? { location }
        : {}
    return { ...news, ...made, ...placed, azureApiVersion: shape.apiVersion }
  }
  function groupLocation({ resourceGroupName }: Properties) {
    if (resourceGroupName === undefined) return undefined
    if (hasUnknown(resourceGroupName)) return UNKNOWN
    return cloud.get(`/subscriptions/${subscriptionId}/resourceGroups/${resourceGroupName}`)?.outputs[
      'location'
    ]
  }

  return {
    name: 'azure-native',
    acceptsSecrets: false,
    checkConfig: (news) => ({ inputs: news, failures: [] }),
    diffConfig: () => ({ changes: new Map(), replaces: [], deleteBeforeReplace: false }),
    configure(args) {
      subscriptionId = String(args['subscriptionId'] ?? NOBODY)
      tenantId = String(args['tenantId'] ?? NOBODY)
      defaultLocation = args['location'] === undefined ? undefined : String(args['location'])
    },
    check(named, olds, news): Checked {
      const inputs = defaults(named, withoutNulls(olds), withoutNulls(news))
      const needed = pathParametersOf(named.type).filter((key) => shapeOf(named.type).inputs.has(key))
      const missing = needed.filter((key) => inputs[key] === undefined || inputs[key] === '')
      const reason = (key: string) => `missing required property '${key}'`
      return { inputs, failures: missing.map((property) => ({ property, reason: reason(property) })) }
    },
    diff({ type }, old, news): Compared {
      const changes = differences(withoutNulls(old.inputs), withoutNulls(news))
      const names = pathParametersOf(type)
      const replaces = [...changes.keys()].filter((path) => replacesResource(type, path, names))
      return {
        changes,
        replaces,
        deleteBeforeReplace: replaces.length > 0 && old.inputs[AUTO_NAMED] !== true,
      }
    },
    preview({ type }, inputs, old) {
      const shape = shapeOf(type)
      const known = echoed(shape, withoutNulls(inputs))
      const open = [...shape.outputs].filter((key) => known[key] === undefined)
      const start: Properties = { ...known, ...Object.fromEntries(open.map((key) => [key, UNKNOWN])) }
      const outputs = computedPaths(type).reduce<Properties>(
        (all, path) => (valueAt(all, path) === undefined ? withComputed(shape, all, [path, UNKNOWN]) : all),
        start,
      )
      // Azure never changes these two, so the provider passes them on while an update is only planned.
      const stable = ['name', 'location'].flatMap((key) => {
        const value = old?.outputs[key]
        return value === undefined ? [] : [[key, value] as const]
      })
      return { ...outputs, ...Object.fromEntries(stable) }
    },
    async create({ type }, inputs) {
      const wanted = withoutNulls(inputs)
      const id = addressOf(type, wanted, subscriptionId)
      if (cloud.get(id) !== undefined && !SINGLETONS.has(type))
        throw new RpcError(STATUS.unknown, `cannot create already existing resource '${id}'`)
      if (cloud.isBuried(id))
        throw fail({
          status: 409,
          code: 'ConflictError',
          message: `'${id}' exists in deleted state: recover or purge it, or take another name.`,
        })
      const { outputs } = await put(type, id, wanted)
      return { id, inputs: wanted, outputs }
    },
    read(_, id, old) {
      const object = cloud.get(id)
      if (object === undefined) return undefined
      if (old === undefined || Object.keys(old.inputs).length === 0) return object
      return { ...object, inputs: projectDrift(old, object.outputs) }
    },
    async update({ type }, old, news) {
      const wanted = withoutNulls(news)
      const object = cloud.get(old.id)
      if (object === undefined)
        throw fail({ status: 404, code: 'ResourceNotFound', message: `'${old.id}' was not found.` })
      const refused = [...differences(object.inputs, wanted).keys()].find((path) => refusesChange(type, path))
      if (refused !== undefined)
        throw fail({
          status: 400,
          code: 'PropertyChangeNotAllowed',
          message: `Changing property '${refused}' is not allowed.`,
        })
      const { outputs } = await put(type, old.id, wanted)
      return { id: old.id, inputs: wanted, outputs }
    },
    async delete({ type }, old) {
      await delay(WRITE_MS)
      const isKept = valueAt(old.inputs, 'properties.enablePurgeProtection') === true
      if (type === 'azure-native:keyvault:Vault' && cloud.get(old.id) !== undefined && isKept)
        cloud.bury(old.id)
      const hosts = ['fqdn', 'privateFQDN'].map((key) => `kubernetes:${old.outputs[key]}:`)
      const isBelow = (id: string) => `${id.toLowerCase()}/`.startsWith(`${old.id.toLowerCase()}/`)
      for (const { id } of cloud.list())
        if (isBelow(id) || hosts.some((host) => id.startsWith(host))) cloud.remove(id)
    },
    invoke: (token, args) => azureInvoke({ cloud, subscriptionId, tenantId }, token, args),
  }
}

/**
 * The inputs that a refresh writes: the old inputs, changed where Azure's response differs from the outputs in the
 * state. Values that the service computed are excluded.
 */
function projectDrift(old: State, outputs: Properties): Properties {
  const changed = [...differences(old.outputs, outputs)].filter(([path]) => {
    const [root = ''] = path.split(/[.[]/)
    return root in old.inputs
  })
  return changed.reduce<Properties>(
    (inputs, [path]) => withValueAt(inputs, path, valueAt(outputs, path)),
    old.inputs,
  )
}
