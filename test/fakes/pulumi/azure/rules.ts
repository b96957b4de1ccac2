import type { Cloud, CloudObject } from '../cloud.ts'
import { type Json, type Properties, valueAt } from '../values.ts'
import { AZURE, parentAddress } from './addresses.ts'

/** One PUT request as Azure receives it: the resource id and the requested properties. */
export interface Put {
  readonly type: string
  readonly id: string
  readonly inputs: Properties
  readonly cloud: Cloud
}

/** Azure's response to a rejected request: status, error code and message. */
export interface Refusal {
  readonly status: number
  readonly code: string
  readonly message: string
}
const refuse = (status: number, code: string, message: string): Refusal => ({ status, code, message })

const text = (value: Json | undefined) => (typeof value === 'string' ? value : '')
const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** Where something of this subscription is named: a built-in role definition or a public tenant scope is not. */
const RESOURCE_ID = /^\/subscriptions\/[^/]+\/resourcegroups\/[^/]+/i

function strings(value: Json): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(strings) : []
}

/**
 * A subnet that was written inline in its network also exists, and so does the resource group that AKS creates for its
 * nodes.
 */
function exists(cloud: Cloud, id: string): boolean {
  if (cloud.get(id) !== undefined) return true
  const known = cloud.list().flatMap((object) => strings(object.outputs['subnets'] ?? []))
  return known.some((other) => other.toLowerCase() === id.toLowerCase()) || isNodeGroup(cloud, id)
}
function isNodeGroup(cloud: Cloud, id: string): boolean {
  const group = id.split('/')[4]?.toLowerCase()
  return cloud
    .list()
    .some(
      (object) => text(object.outputs['nodeResourceGroup']).toLowerCase() === group && group !== undefined,
    )
}

function parentRule({ id, cloud }: Put): Refusal | undefined {
  const parent = parentAddress(id)
  if (parent === undefined || !RESOURCE_ID.test(parent) || exists(cloud, parent)) return undefined
  const isGroup = parent.split('/').length === 5
  return isGroup
    ? refuse(404, 'ResourceGroupNotFound', `Resource group '${parent.split('/')[4]}' could not be found.`)
    : refuse(
        404,
        'ParentResourceNotFound',
        `Can not perform requested operation on nested resource. Parent resource '${parent}' not found.`,
      )
}

/** Every id that the request names must be there: a program that builds an id from text loses the order. */
function referenceRule({ id, inputs, cloud }: Put): Refusal | undefined {
  const named = strings(inputs).filter((value) => RESOURCE_ID.test(value) && value !== id)
  const missing = named.find((value) => !exists(cloud, value))
  return missing === undefined
    ? undefined
    : refuse(400, 'LinkedInvalidPropertyId', `The resource '${missing}' named by '${id}' was not found.`)
}

const ofType = (cloud: Cloud, type: string): CloudObject[] =>
  cloud.list().filter((object) => object.type === `${AZURE}${type}`)
const isWithin = (scope: string, id: string) =>
  id.toLowerCase() === scope.toLowerCase() || id.toLowerCase().startsWith(`${scope.toLowerCase()}/`)

function roleAssignmentRule({ id, inputs, cloud }: Put): Refusal | undefined {
  if (!GUID.test(id.slice(id.lastIndexOf('/') + 1)))
    return refuse(400, 'InvalidRoleAssignmentId', 'The role assignment ID must be a GUID.')
  if (inputs['principalType'] === undefined)
    return refuse(
      400,
      'PrincipalNotFound',
      `Principal ${inputs['principalId']} does not exist in the directory.`,
    )
  const twin = ofType(cloud, 'authorization:RoleAssignment').find(
    (other) =>
      other.id.toLowerCase() !== id.toLowerCase() &&
      ['principalId', 'roleDefinitionId', 'scope', 'condition'].every(
        (key) => other.inputs[key] === inputs[key],
      ),
  )
  return twin === undefined
    ? undefined
    : refuse(409, 'RoleAssignmentExists', 'The role assignment already exists.')
}

const NETWORK_CONTRIBUTOR = '4d97b98b-1d4f-4787-a291-c67834d212e7'
const IDENTITY_OPERATOR = 'f1a07417-d97a-45cb-824c-7a7467783830'

/** Whether one of the cluster's identities has a role on `id` or above. A custom role counts as any role. */
function holds({ inputs, cloud }: Put, role: string, id: string): boolean {
  const ids = strings(valueAt(inputs, 'identity.userAssignedIdentities') ?? [])
  const principals = ids.map((identity) => cloud.get(identity)?.outputs['principalId'])
  return ofType(cloud, 'authorization:RoleAssignment').some(({ inputs: assignment }) => {
    const definition = text(assignment['roleDefinitionId'])
    const isRole = definition.endsWith(role) || cloud.get(definition) !== undefined
    return isRole && principals.includes(assignment['principalId']) && isWithin(text(assignment['scope']), id)
  })
}

function subnetOf(cloud: Cloud, id: string): Properties {
  const own = cloud.get(id)?.outputs
  const inline = cloud
    .list()
    .flatMap((object) => (object.outputs['subnets'] ?? []) as readonly Properties[])
    .find((subnet) => text(subnet['id']).toLowerCase() === id.toLowerCase())
  return own ?? inline ?? {}
}

/** A cluster in a network of its owner joins its subnets with its own identity, which must be allowed to before. */
function clusterRule(put: Put): Refusal | undefined {
  const pools = (put.inputs['agentPoolProfiles'] ?? []) as readonly Properties[]
  if (pools.length === 0) return refuse(400, 'InvalidParameter', 'At least one agent pool is required.')
  const nodes = pools.flatMap((pool) => text(pool['vnetSubnetID']) || [])
  const subnets = [...nodes, text(valueAt(put.inputs, 'apiServerAccessProfile.subnetId'))].filter(
    (id) => id !== '',
  )
  const closed = subnets.find((subnet) => !holds(put, NETWORK_CONTRIBUTOR, subnet))
  if (closed !== undefined)
    return refuse(
      403,
      'LinkedAuthorizationFailed',
      `The client has no permission to perform action 'Microsoft.Network/virtualNetworks/subnets/join/action' on '${closed}'.`,
    )
  return kubeletRule(put) ?? gatewayRule(put, nodes)
}

function kubeletRule(put: Put): Refusal | undefined {
  const kubelet = text(valueAt(put.inputs, 'identityProfile.kubeletidentity.resourceId'))
  return kubelet === '' || holds(put, IDENTITY_OPERATOR, kubelet)
    ? undefined
    : refuse(
        400,
        'CustomKubeletIdentityMissingPermissionError',
        `The cluster's identity must be Managed Identity Operator of '${kubelet}'.`,
      )
}

function gatewayRule({ inputs, cloud }: Put, nodes: readonly string[]): Refusal | undefined {
  const isNeeded = valueAt(inputs, 'networkProfile.outboundType') === 'userAssignedNATGateway'
  const bare = isNeeded ? nodes.find((id) => subnetOf(cloud, id)['natGateway'] === undefined) : undefined
  return bare === undefined
    ? undefined
    : refuse(400, 'InvalidUserAssignedNATGateway', `Subnet '${bare}' has no NAT gateway.`)
}

function poolRule({ inputs }: Put): Refusal | undefined {
  return valueAt(inputs, 'securityProfile.sshAccess') === undefined
    ? undefined
    : refuse(400, 'UnmarshalError', 'unknown field "sshAccess"')
}

function credentialRule({ id, inputs, cloud }: Put): Refusal | undefined {
  const identity = parentAddress(id) ?? ''
  const siblings = ofType(cloud, 'managedidentity:FederatedIdentityCredential').filter(
    (other) => isWithin(identity, other.id) && other.id.toLowerCase() !== id.toLowerCase(),
  )
  if (siblings.length >= 20)
    return refuse(400, 'BadRequest', 'Too many federated identity credentials: at most 20 per identity.')
  const isTwin = siblings.some(
    (other) => other.inputs['issuer'] === inputs['issuer'] && other.inputs['subject'] === inputs['subject'],
  )
  if (isTwin)
    return refuse(409, 'Conflict', 'Issuer and subject combination already exists for this identity.')
  return /^https:\/\//.test(text(inputs['issuer']))
    ? undefined
    : refuse(400, 'BadRequest', 'The issuer must be a valid URL with the https scheme.')
}

/** A private server's DNS zone must be linked to its network before the server is created. */
function serverRule({ inputs, cloud }: Put): Refusal | undefined {
  const zone = text(valueAt(inputs, 'network.privateDnsZoneArmResourceId'))
  if (zone === '') return undefined
  const isLinked = ofType(cloud, 'privatedns:VirtualNetworkLink').some((link) => isWithin(zone, link.id))
  return isLinked
    ? undefined
    : refuse(400, 'VnetLinkNotFound', `The private DNS zone '${zone}' is not linked to the virtual network.`)
}

const RULES: Readonly<Record<string, (put: Put) => Refusal | undefined>> = {
  'authorization:RoleAssignment': roleAssignmentRule,
  'containerservice:AgentPool': poolRule,
  'containerservice:ManagedCluster': clusterRule,
  'dbforpostgresql:Server': serverRule,
  'managedidentity:FederatedIdentityCredential': credentialRule,
}

/** Azure's reason to reject this request; undefined if Azure accepts it. */
export function refusalOf(put: Put): Refusal | undefined {
  const rules = [parentRule, referenceRule, RULES[put.type.slice(AZURE.length)]]
  for (const rule of rules) {
    const refusal = rule?.(put)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

/** Types with serialized writes per parent, with Azure's error for a concurrent write. */
const SERIAL: Readonly<Record<string, readonly [code: string, message: string]>> = {
  'containerservice:AgentPool': [
    'OperationNotAllowed',
    'Another operation is in progress on the managed cluster.',
  ],
  'dbforpostgresql:AdministratorsMicrosoftEntra': [
    'ServerIsBusy',
    'Another operation is in progress on the server.',
  ],
  'dbforpostgresql:Configuration': ['ServerIsBusy', 'Another operation is in progress on the server.'],
  'dbforpostgresql:Database': ['ServerIsBusy', 'Another operation is in progress on the server.'],
  'managedidentity:FederatedIdentityCredential': [
    'ConcurrentFederatedIdentityCredentialsWritesForSingleManagedIdentity',
    'Too many federated identity credentials are written concurrently for the managed identity.',
  ],
}
const busy = new Map<string, string>()

/** Runs a slow write. A concurrent write to the same parent is rejected, as in Azure. */
export async function oneAtATime<T>(type: string, id: string, write: () => Promise<T>): Promise<T | Refusal> {
  const words = SERIAL[type.slice(AZURE.length)]
  const parent = parentAddress(id)?.toLowerCase()
  if (words === undefined || parent === undefined) return write()
  if (busy.has(parent)) return refuse(409, ...words)
  busy.set(parent, id)
  try {
    return await write()
  } finally {
    busy.delete(parent)
  }
}
