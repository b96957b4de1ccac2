import {
  isSecret,
  isUnknown,
  type Plan,
  type PlannedResource,
  type PlannedValue,
} from '../../contracts/planned-resource.ts'
import { nodeHours, vcpusByFamily } from '../../infra/model/capacity.ts'
import { BUILT_IN_ROLES, secretGetter, secretWriter } from '../../infra/model/roles.ts'
import { NOTABLE_INPUTS } from './notable-inputs.ts'

/** The content of a plan's review, independent of its format. */
export interface Review {
  readonly stack: string
  readonly components: readonly ReviewedComponent[]
  readonly access: readonly AccessRow[]
  readonly logins: readonly LoginRow[]
  readonly doors: readonly DoorRow[]
  readonly costs: readonly CostRow[]
  readonly counts: Counts
}
export interface Counts {
  /** The resources in Azure and in the cluster after an `up`. */
  readonly made: number
  readonly protected: number
  readonly providers: number
  readonly components: number
  /** The number that `pulumi up` reports on a new stack: all of these plus the stack. */
  readonly pulumi: number
}
export interface ReviewedComponent {
  readonly title: string
  readonly resources: readonly ReviewedResource[]
}
export interface ReviewedResource {
  readonly type: string
  readonly name: string
  readonly marks: readonly string[]
  readonly facts: readonly (readonly [path: string, value: string])[]
}
export interface AccessRow {
  readonly who: string
  readonly role: string
  readonly where: string
  readonly why: string
}
export interface LoginRow {
  readonly account: string
  readonly identity: string
}
export interface DoorRow {
  readonly group: string
  readonly from: string
  readonly ports: string
}
export interface CostRow {
  readonly what: string
  readonly amount: string
}

export function reviewPlan(plan: Plan): Review {
  const custom = plan.resources.filter((one) => one.custom && !one.type.startsWith('pulumi:'))
  return {
    stack: plan.stack,
    components: groups(plan, custom),
    access: custom.filter(isType('authorization:RoleAssignment')).map((one) => accessRow(plan, one)),
    logins: custom
      .filter(isType('managedidentity:FederatedIdentityCredential'))
      .map((one) => ({ account: text(one.inputs['subject']), identity: text(one.inputs['resourceName']) })),
    doors: custom.filter(isType('network:NetworkSecurityGroup')).flatMap(doorRows),
    costs: costRows(custom),
    counts: countsOf(plan, custom),
  }
}

function countsOf({ resources }: Plan, custom: readonly PlannedResource[]): Counts {
  const components = resources.filter((one) => !one.custom).length
  const providers = resources.filter(({ type }) => type.startsWith('pulumi:providers:')).length
  return {
    made: custom.length,
    protected: custom.filter(({ protect }) => protect).length,
    providers,
    components,
    pulumi: custom.length + providers + components + 1,
  }
}

const isType = (type: string) => (one: PlannedResource) => one.type === `azure-native:${type}`

/** Resources below the outermost component that they belong to. */
function groups(plan: Plan, custom: readonly PlannedResource[]): ReviewedComponent[] {
  const byUrn = new Map(plan.resources.map((one) => [one.urn, one]))
  const outermost = (one: PlannedResource): PlannedResource => {
    const parent = byUrn.get(one.parent ?? '')
    return parent === undefined ? one : outermost(parent)
  }
  const grouped = Map.groupBy(custom, (one) => outermost(one).urn)
  const titled = [...grouped].map(([urn, resources]) => {
    const root = byUrn.get(urn)
    const kind = root?.type.split(':').at(-1) ?? ''
    return { title: `${kind} ${root?.name ?? ''}`, resources: resources.map(reviewedResource) }
  })
  return titled.toSorted((a, b) => (a.title < b.title ? -1 : 1))
}

function reviewedResource(one: PlannedResource): ReviewedResource {
  const facts = (NOTABLE_INPUTS[one.type] ?? []).flatMap((path) => {
    const value = valueAt(one.inputs, path)
    return value === undefined ? [] : [[path, text(value)] as const]
  })
  const marks = [...(one.protect ? ['protected'] : []), ...(one.retainOnDelete ? ['stays when deleted'] : [])]
  return { type: one.type.replace(/^azure-native:/, ''), name: one.name, marks, facts }
}

/** The value at `agentPoolProfiles[0].minCount`. */
function valueAt(inputs: PlannedValue | undefined, path: string): PlannedValue | undefined {
  const keys = path.replaceAll(/\[(\d+)\]/g, '.$1').split('.')
  return keys.reduce<PlannedValue | undefined>(
    (value, key) =>
      typeof value === 'object' && value !== null ? (value as Record<string, PlannedValue>)[key] : undefined,
    inputs,
  )
}

/** A value as text. A secret stays hidden; an unknown value names its source. */
export function text(value: PlannedValue | undefined): string {
  if (value === undefined) return ''
  if (isSecret(value)) return '(secret)'
  if (isUnknown(value)) return `(of ${value.$unknown.split(', ').map(lastName).join(', ')})`
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(text).join(', ')
  return Object.entries(value)
    .map(([key, inner]) => `${key}=${text(inner)}`)
    .join(' ')
}

const lastName = (urn: string) => urn.split('::').slice(3).join('::') || urn

function accessRow(plan: Plan, one: PlannedResource): AccessRow {
  const { principalId, scope, description, roleDefinitionId } = one.inputs
  const who = one.name.split(': ')[0] ?? ''
  const where = isUnknown(scope) ? text(scope) : text(scope).split('/').slice(-2).join(' ')
  return {
    who: isUnknown(principalId) ? who : `${who} ${text(principalId)}`,
    role: roleName(plan, roleDefinitionId, text(scope)),
    where,
    why: text(description),
  }
}

/**
 * The name of a built-in role by its GUID, of an owner's custom role by the inputs of its GUID, or of a role in the
 * plan by its definition; otherwise the id itself. The description of a grant is not trusted.
 */
function roleName(plan: Plan, id: PlannedValue | undefined, scope: string): string {
  const given = text(id)
  const builtIn = Object.entries(BUILT_IN_ROLES).find(([, guid]) => given.endsWith(`/${guid}`))
  if (builtIn !== undefined) return builtIn[0]
  const [, subscription = '', platform = ''] =
    /^\/subscriptions\/([^/]+)\/resourceGroups\/([^/]+)\//.exec(scope) ?? []
  const owners = [secretGetter(subscription, platform), secretWriter(subscription, platform)]
  const custom = owners.find(({ definitionId }) => given === definitionId)
  if (custom !== undefined) return custom.name
  const own = plan.resources.find(
    ({ type, urn }) =>
      type === 'azure-native:authorization:RoleDefinition' && isUnknown(id) && id.$unknown.includes(urn),
  )
  return own === undefined ? `role ${given.split('/').at(-1)}` : text(own.inputs['roleName'])
}

function doorRows(group: PlannedResource): DoorRow[] {
  const rules = group.inputs['securityRules']
  const list = Array.isArray(rules) ? (rules as readonly Record<string, PlannedValue>[]) : []
  return list
    .filter(({ access, direction }) => access === 'Allow' && direction === 'Inbound')
    .map((rule) => ({
      group: group.name,
      from: text(rule['sourceAddressPrefix']),
      ports: text(rule['destinationPortRanges']),
    }))
}

interface Pool {
  readonly name: string
  readonly size: string
  readonly min: number
  readonly max: number
}

/** Inputs that are billed by time or size. Amounts, never prices: prices belong to the subscription. */
function costRows(custom: readonly PlannedResource[]): CostRow[] {
  const pools = custom.flatMap(poolsOf)
  const nodes = { min: sum(pools, 'min'), max: sum(pools, 'max') }
  const hours = (pool: { min: number; max: number }) => {
    const { least, most } = nodeHours(pool)
    return `${least} to ${most} node-hours a month`
  }
  const families = Object.entries(vcpusByFamily(pools.map((pool) => ({ ...pool, surge: 1 }))))
  return [
    ...pools.map((pool) => ({
      what: `pool ${pool.name}, ${pool.min} to ${pool.max} ${pool.size}`,
      amount: hours(pool),
    })),
    ...(pools.length > 0
      ? [{ what: 'Advanced Container Networking Services, on every node', amount: hours(nodes) }]
      : []),
    ...families.map(([family, vcpus]) => ({
      what: `quota ${family}`,
      amount: `${vcpus} vCPUs at most, upgrades included`,
    })),
    ...custom.flatMap(fixedCost),
  ]
}

const sum = (pools: readonly Pool[], key: 'min' | 'max') =>
  pools.reduce((total, pool) => total + pool[key], 0)

function poolsOf({ type, inputs }: PlannedResource): Pool[] {
  const toPool = (name: PlannedValue | undefined, pool: Record<string, PlannedValue>): Pool => ({
    name: text(name),
    size: text(pool['vmSize']),
    min: Number(pool['minCount']),
    max: Number(pool['maxCount']),
  })
  if (type === 'azure-native:containerservice:AgentPool')
    return [toPool(inputs['agentPoolName'], { ...inputs })]
  const inline = inputs['agentPoolProfiles']
  if (type !== 'azure-native:containerservice:ManagedCluster' || !Array.isArray(inline)) return []
  return (inline as Record<string, PlannedValue>[]).map((pool) => toPool(pool['name'], pool))
}

/** Texts for resources that run all the time, by type. */
const FIXED: Readonly<Record<string, readonly string[]>> = {
  'azure-native:containerservice:ManagedCluster': ['sku.tier'],
  'azure-native:dbforpostgresql:Server': ['sku.name', 'storage.storageSizeGB', 'highAvailability.mode'],
  'azure-native:network:NatGateway': ['sku.name'],
  'azure-native:network:PrivateEndpoint': ['privateEndpointName'],
  'azure-native:containerregistry:Registry': ['sku.name'],
  'azure-native:operationalinsights:Workspace': ['sku.name', 'retentionInDays'],
  'azure-native:dashboard:Grafana': ['sku.name'],
}

function fixedCost({ type, name, inputs }: PlannedResource): CostRow[] {
  const paths = FIXED[type]
  if (paths === undefined) return []
  const amount = paths.map((path) => `${path} ${text(valueAt(inputs, path))}`).join(', ')
  return [{ what: `${type.replace('azure-native:', '')} ${name}`, amount }]
}
