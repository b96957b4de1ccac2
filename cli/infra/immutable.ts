import type { Plan, PlannedResource, PlannedValue } from '../../contracts/planned-resource.ts'
import type { ConfigProblem, PlatformConfig } from '../../infra/config-sections.ts'

/** Returns the changes in a stack file that Azure or its provider could apply only by replacing a resource. */
export function immutableProblems(config: PlatformConfig, plan: Plan): ConfigProblem[] {
  return [
    ...clusterProblems(config, plan),
    ...subnetProblems(config, plan),
    ...poolProblems(config, plan),
    ...databaseProblems(config, plan),
  ]
}

const AZURE = 'azure-native'
const ofType = ({ resources }: Plan, type: string) =>
  resources.filter((resource) => resource.type === `${AZURE}:${type}`)

/** Returns the value at a path of names, or undefined if it does not exist. */
function at(value: PlannedValue | undefined, path: readonly string[]): PlannedValue | undefined {
  const [key, ...rest] = path
  if (key === undefined) return value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return at((value as { readonly [key: string]: PlannedValue })[key], rest)
}

interface Compared {
  readonly path: string
  readonly was: PlannedValue | undefined
  readonly wanted: PlannedValue
  readonly remedy: string
}

const told = (value: PlannedValue | undefined) => (typeof value === 'string' ? value : JSON.stringify(value))

/** Reports no problem if the plan does not have the value, because an unknown value is not a difference. */
function compare({ path, was, wanted, remedy }: Compared): ConfigProblem[] {
  const isTold =
    typeof was === 'string' || typeof was === 'number' || typeof was === 'boolean' || Array.isArray(was)
  if (!isTold || told(was) === told(wanted)) return []
  return [
    { path, message: `is ${told(wanted)}, but was created as ${told(was)} and cannot change: ${remedy}` },
  ]
}

const KEEP = 'keep it, or create a stack with another name'

function clusterProblems(config: PlatformConfig, plan: Plan): ConfigProblem[] {
  return ofType(plan, 'containerservice:ManagedCluster').flatMap(({ inputs }) => {
    const one = (path: string, from: readonly string[], wanted: PlannedValue) =>
      compare({ path, was: at(inputs, from), wanted, remedy: KEEP })
    const { podCidr, serviceCidr } = config.network
    return [
      ...one('location', ['location'], config.location),
      ...one('network.podCidr', ['networkProfile', 'podCidr'], podCidr),
      ...one('network.serviceCidr', ['networkProfile', 'serviceCidr'], serviceCidr),
    ]
  })
}

const SUBNET_KEYS = ['nodeCidr', 'apiServerCidr', 'databaseCidr', 'endpointCidr'] as const

/** The ranges that subnets have, wherever the plan holds them: on their own or in their network. */
function subnetProblems({ network }: PlatformConfig, plan: Plan): ConfigProblem[] {
  const made = new Set(
    [...ofType(plan, 'network:Subnet'), ...ofType(plan, 'network:VirtualNetwork').flatMap(subnetsOf)].flatMap(
      ({ inputs }) => [inputs['addressPrefix'], ...listOf(inputs['addressPrefixes'])],
    ),
  )
  made.delete(undefined)
  if (made.size === 0) return []
  return SUBNET_KEYS.filter((key) => !made.has(network[key])).map((key) => ({
    path: `network.${key}`,
    message: `is ${network[key]}, which is not one of the existing ranges (${[...made].map(told).join(', ')}) and cannot change: ${KEEP}`,
  }))
}

const listOf = (value: PlannedValue | undefined): PlannedValue[] => (Array.isArray(value) ? [...value] : [])
const subnetsOf = ({ inputs }: PlannedResource) =>
  listOf(inputs['subnets']).map((subnet) => ({ inputs: subnet as PlannedResource['inputs'] }))

/** Immutable settings of a pool, by the names of the stack file and of Azure. */
const POOL_SETTINGS = {
  size: 'vmSize',
  zones: 'availabilityZones',
  maxPods: 'maxPods',
  osDiskGib: 'osDiskSizeGB',
} as const

function poolProblems({ pools }: PlatformConfig, plan: Plan): ConfigProblem[] {
  const made = ofType(plan, 'containerservice:AgentPool')
  return (['app', 'kata'] as const).flatMap((name) => {
    const { generation } = pools[name]
    const pool = made.find(({ inputs }) => inputs['agentPoolName'] === `${name}${generation}`)
    if (!pool) return []
    return (Object.keys(POOL_SETTINGS) as (keyof typeof POOL_SETTINGS)[]).flatMap((setting) =>
      compare({
        path: `pools.${name}.${setting}`,
        was: pool.inputs[POOL_SETTINGS[setting]],
        wanted: pools[name][setting],
        remedy: `raise pools.${name}.generation to ${generation + 1}, which creates a second pool`,
      }),
    )
  })
}

function databaseProblems({ database }: PlatformConfig, plan: Plan): ConfigProblem[] {
  return ofType(plan, 'dbforpostgresql:Server').flatMap(({ inputs }) => {
    const stored = at(inputs, ['storage', 'storageSizeGB'])
    const shrinks = typeof stored === 'number' && database.storageGib < stored
    return [
      ...compare({
        path: 'database.version',
        was: inputs['version'],
        wanted: database.version,
        remedy: 'upgrade it with "az postgres flexible-server upgrade", then change this key',
      }),
      ...compare({
        path: 'database.geoRedundantBackup',
        was: at(inputs, ['backup', 'geoRedundantBackup']),
        wanted: database.geoRedundantBackup ? 'Enabled' : 'Disabled',
        remedy: KEEP,
      }),
      ...(shrinks
        ? [
            {
              path: 'database.storageGib',
              message: `is ${database.storageGib}, but has ${stored} and only grows`,
            },
          ]
        : []),
    ]
  })
}
