import { createHash } from 'node:crypto'
import { type Json, type Properties, valueAt } from '../values.ts'
import { AZURE } from './addresses.ts'

export interface Made {
  readonly id: string
  readonly inputs: Properties
  readonly subscriptionId: string
  readonly tenantId: string
}

const digest = (text: string) => createHash('sha256').update(text.toLowerCase()).digest('hex')
/** The same object always has the same GUID, so that two runs can be compared. */
export function guidOf(text: string): string {
  const hex = digest(text)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
const nameOf = (id: string) => id.slice(id.lastIndexOf('/') + 1)
const regionOf = ({ inputs }: Made) =>
  String(inputs['location'] ?? 'westeurope')
    .toLowerCase()
    .replace(/ /g, '')
const isOn = ({ inputs }: Made, path: string) => valueAt(inputs, path) === true
const numberOf = (text: string, below: number) => Number.parseInt(digest(text).slice(0, 6), 16) % below

type Compute = (made: Made) => Json | undefined

function clusterHost(made: Made): string {
  const prefix = made.inputs['dnsPrefix'] ?? made.inputs['fqdnSubdomain'] ?? nameOf(made.id)
  return `${prefix}-${digest(made.id).slice(0, 8)}`
}
const isPrivate = (made: Made) => isOn(made, 'apiServerAccessProfile.enablePrivateCluster')
const nodeGroup = (made: Made) =>
  `/subscriptions/${made.subscriptionId}/resourceGroups/${
    made.inputs['nodeResourceGroup'] ??
    `MC_${made.inputs['resourceGroupName']}_${nameOf(made.id)}_${regionOf(made)}`
  }`
function kubeletIdentity(made: Made): Properties {
  const name = `${nameOf(made.id)}-agentpool`
  const resourceId = `${nodeGroup(made)}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/${name}`
  return { resourceId, clientId: guidOf(`${resourceId}/client`), objectId: guidOf(`${resourceId}/object`) }
}
const vaultHost = (made: Made) => `https://${nameOf(made.id)}.vault.azure.net/`
const subnetsOf = (made: Made) =>
  ((made.inputs['subnets'] ?? []) as readonly Properties[]).map((subnet) => ({
    ...subnet,
    id: `${made.id}/subnets/${subnet['name']}`,
  }))

const CLUSTER: Record<string, Compute> = {
  fqdn: (made) => (isPrivate(made) ? undefined : `${clusterHost(made)}.hcp.${regionOf(made)}.azmk8s.io`),
  privateFQDN: (made) =>
    isPrivate(made)
      ? `${clusterHost(made)}.${guidOf(made.id)}.privatelink.${regionOf(made)}.azmk8s.io`
      : undefined,
  azurePortalFQDN: (made) => `${clusterHost(made)}.portal.hcp.${regionOf(made)}.azmk8s.io`,
  currentKubernetesVersion: ({ inputs }) => `${inputs['kubernetesVersion'] ?? '1.35'}.4`,
  nodeResourceGroup: (made) => nameOf(nodeGroup(made)),
  resourceUID: ({ id }) => digest(id).slice(0, 24),
  identityProfile: (made) => ({ kubeletidentity: kubeletIdentity(made) }),
  // The issuer ends with a slash, and Azure compares it byte by byte with the one in a federated credential.
  'oidcIssuerProfile.issuerURL': (made) =>
    isOn(made, 'oidcIssuerProfile.enabled')
      ? `https://${regionOf(made)}.oic.prod-aks.azure.com/${made.tenantId}/${guidOf(`${made.id}/issuer`)}/`
      : undefined,
}

/** Values that the service computes, by path, for each type. Undefined omits the property, as Azure does. */
const COMPUTED: Readonly<Record<string, Record<string, Compute>>> = {
  'applicationinsights:Component': {
    appId: ({ id }) => guidOf(`${id}/app`),
    instrumentationKey: ({ id }) => guidOf(`${id}/key`),
    connectionString: (made) =>
      `InstrumentationKey=${guidOf(`${made.id}/key`)};IngestionEndpoint=https://${regionOf(made)}.in.applicationinsights.azure.com/`,
  },
  'containerregistry:Registry': { loginServer: ({ id }) => `${nameOf(id).toLowerCase()}.azurecr.io` },
  'containerservice:AgentPool': {
    currentOrchestratorVersion: ({ inputs }) => `${inputs['orchestratorVersion'] ?? '1.35'}.4`,
    nodeImageVersion: () => 'AKSAzureLinux-V3gen2-202609.15.0',
    'powerState.code': () => 'Running',
  },
  'containerservice:ManagedCluster': CLUSTER,
  'dashboard:Grafana': {
    'properties.endpoint': (made) => `https://${nameOf(made.id)}.${regionOf(made)}.grafana.azure.com`,
  },
  'dbforpostgresql:Server': {
    fullyQualifiedDomainName: ({ id }) => `${nameOf(id)}.postgres.database.azure.com`,
    state: () => 'Ready',
    minorVersion: () => '4',
    'network.publicNetworkAccess': ({ inputs }) =>
      valueAt(inputs, 'network.delegatedSubnetResourceId') === undefined ? undefined : 'Disabled',
  },
  'dns:RecordSet': { fqdn: ({ inputs }) => `${inputs['relativeRecordSetName']}.${inputs['zoneName']}.` },
  'dns:Zone': {
    nameServers: ({ id }) =>
      ['com', 'net', 'org', 'info'].map(
        (top, index) => `ns${index + 1}-0${numberOf(id, 9)}.azure-dns.${top}.`,
      ),
    numberOfRecordSets: () => 2,
  },
  'keyvault:Key': {
    keyUri: (made) => `https://${made.inputs['vaultName']}.vault.azure.net/keys/${nameOf(made.id)}`,
    keyUriWithVersion: (made) =>
      `https://${made.inputs['vaultName']}.vault.azure.net/keys/${nameOf(made.id)}/${digest(made.id).slice(0, 32)}`,
  },
  'keyvault:Secret': {
    'properties.secretUri': (made) =>
      `https://${made.inputs['vaultName']}.vault.azure.net/secrets/${nameOf(made.id)}`,
  },
  'keyvault:Vault': {
    'properties.vaultUri': vaultHost,
    'properties.hsmPoolResourceId': () => undefined,
    'properties.provisioningState': () => 'Succeeded',
  },
  'managedidentity:UserAssignedIdentity': {
    clientId: ({ id }) => guidOf(`${id}/client`),
    principalId: ({ id }) => guidOf(`${id}/principal`),
    tenantId: ({ tenantId }) => tenantId,
  },
  'monitor:AzureMonitorWorkspace': {
    'metrics.internalId': ({ id }) => `mac_${guidOf(id)}`,
    'metrics.prometheusQueryEndpoint': (made) =>
      `https://${nameOf(made.id)}-${digest(made.id).slice(0, 4)}.${regionOf(made)}.prometheus.monitor.azure.com`,
    accountId: ({ id }) => guidOf(id),
  },
  'monitor:DataCollectionEndpoint': {
    immutableId: ({ id }) => `dce-${digest(id).slice(0, 32)}`,
    'configurationAccess.endpoint': (made) =>
      `https://${nameOf(made.id)}-${digest(made.id).slice(0, 4)}.${regionOf(made)}-1.handler.control.monitor.azure.com`,
    'metricsIngestion.endpoint': (made) =>
      `https://${nameOf(made.id)}-${digest(made.id).slice(0, 4)}.${regionOf(made)}-1.metrics.ingest.monitor.azure.com`,
  },
  'monitor:DataCollectionRule': { immutableId: ({ id }) => `dcr-${digest(id).slice(0, 32)}` },
  'network:PrivateEndpoint': {
    networkInterfaces: ({ id }) => [`${id}.nic.${digest(id).slice(0, 8)}`],
  },
  'network:PublicIPAddress': {
    ipAddress: ({ id }) =>
      `20.${numberOf(id, 200)}.${numberOf(`${id}b`, 250)}.${1 + numberOf(`${id}c`, 250)}`,
  },
  'network:VirtualNetwork': {
    subnets: (made) => (made.inputs['subnets'] === undefined ? undefined : subnetsOf(made)),
  },
  'operationalinsights:Workspace': { customerId: ({ id }) => guidOf(`${id}/customer`) },
  'storage:StorageAccount': {
    primaryEndpoints: ({ id }) => ({
      blob: `https://${nameOf(id)}.blob.core.windows.net/`,
      file: `https://${nameOf(id)}.file.core.windows.net/`,
    }),
  },
}

const identity: Compute = (made) =>
  String(valueAt(made.inputs, 'identity.type') ?? '').includes('SystemAssigned')
    ? guidOf(`${made.id}/system`)
    : undefined

/** Properties of every Azure resource. A property is omitted if the SDK's class has no such output. */
const COMMON: Record<string, Compute> = {
  name: ({ id }) => nameOf(id),
  etag: ({ id }) => `W/"${digest(id).slice(0, 8)}"`,
  eTag: ({ id }) => digest(id).slice(0, 8),
  provisioningState: () => 'Succeeded',
  resourceGuid: ({ id }) => guidOf(`${id}/resource`),
  'identity.principalId': identity,
  'identity.tenantId': (made) => (identity(made) === undefined ? undefined : made.tenantId),
}

const rulesOf = (type: string) => ({ ...COMMON, ...COMPUTED[type.slice(AZURE.length)] })

/** Nested paths that only the service can compute, and all top-level outputs that are not inputs of the program. */
export const computedPaths = (type: string): string[] =>
  Object.keys(rulesOf(type)).filter((path) => path.includes('.'))

/** Every path that the service computes for this object, with its value. */
export function computedValues(type: string, made: Made): ReadonlyMap<string, Json> {
  const found = Object.entries(rulesOf(type)).map(([path, compute]) => [path, compute(made)] as const)
  return new Map(found.filter((entry): entry is readonly [string, Json] => entry[1] !== undefined))
}
