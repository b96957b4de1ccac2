import { MAX_STREAMS } from '../../contracts/api-env.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { contains, overlaps, parseAddress, parseRange, type Range } from '../../reachability/address.ts'
import { reasonForCredentials } from './credentials-container.ts'
import { modelMistakes } from './model-mistakes.ts'
import { DATABASE_SETUP_SIZE, podNeeds } from './pod-needs.ts'
import type { ContainerSize, Environment } from './schema.ts'
import { upstreamMistakes } from './upstream-proxy.ts'
import { vaultReaderMistakes } from './vault-reader.ts'

type Rule = (found: Partial<Environment>) => readonly string[]

/**
 * Rules that span several fields. A rule whose sections failed to parse reports nothing, because their
 * mistakes are already reported.
 */
export function contradictions(found: Partial<Environment>): string[] {
  return RULES.flatMap((rule) => rule(found))
}

const RULES: readonly Rule[] = [
  // A branch chooses the name of its preview file, so a preview file must not be able to render the base
  // slice.
  ({ name, slice }) =>
    name && slice && name.startsWith('pr-') !== (slice.kind === 'preview')
      ? ['slice: a preview, and nothing else, has a name that begins with pr-']
      : [],
  ({ infra }) => (infra ? rangeMistakes(infra) : []),
  ({ infra }) => (infra ? gatewayMistakes(infra) : []),
  ({ egress, infra }) => (egress && infra ? proxyMistakes(egress, infra.network.serviceCidrs) : []),
  ({ egress, infra, sizes }) => (egress && infra && sizes ? proxySizeMistakes({ egress, infra }, sizes) : []),
  ({ egress }) => upstreamMistakes(egress?.upstreamProxy),
  ({ models, egress, infra }) =>
    models && egress && infra
      ? [...modelMistakes(models, { egress, infra }), ...vaultReaderMistakes({ models, egress, infra })]
      : [],
  ({ infra }) =>
    infra && infra.sandboxNodes.min > infra.sandboxNodes.max
      ? ['infra.sandboxNodes.min: is above infra.sandboxNodes.max']
      : [],
  ({ sizes }) => (sizes ? containerMistakes(sizes) : []),
  ({ sizes }) => (sizes ? quotaMistakes(sizes) : []),
  ({ sizes }) => (sizes ? runMistakes(sizes) : []),
  ({ sizes, infra }) =>
    sizes?.sandboxes.workspace === 'volume' && infra && !infra.storage
      ? ['sizes.sandboxes.workspace: is volume, but infra.storage is missing']
      : [],
  ({ isolation, infra }) =>
    isolation === 'kata' && infra && !infra.azure
      ? ['infra.azure: is missing, and nodes with isolation kata are only known on Azure']
      : [],
  ({ infra, slice, name }) =>
    infra && slice && name?.startsWith('pr-') === (slice.kind === 'preview')
      ? setupMistakes(infra, slice)
      : [],
  ({ gitops, infra }) =>
    infra?.azure && gitops && !GUID.test(gitops.breakGlassGroup)
      ? [
          `gitops.breakGlassGroup: is ${gitops.breakGlassGroup}, and tokens of Entra name groups by object id: take that of "az ad group show --group NAME --query id"`,
        ]
      : [],
  ({ images, infra }) => (images && infra ? registryMistakes(images, infra) : []),
]

const GUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

interface Cidr {
  readonly path: string
  readonly text: string
  readonly range: Range | undefined
}

function rangeMistakes({ network, apiServer, database }: Environment['infra']): string[] {
  const cidrs = (path: string, texts: readonly string[]): Cidr[] =>
    texts.map((text) => ({ path, text, range: parseRange(text) }))
  const own = [
    ...cidrs('infra.network.serviceCidrs', network.serviceCidrs),
    ...cidrs('infra.network.podCidrs', network.podCidrs),
    ...cidrs('infra.network.nodeCidrs', network.nodeCidrs),
    ...cidrs('infra.database.cidr', [database.cidr]),
  ]
  // The API server may have an address in the node range.
  return [
    ...[...own, ...cidrs('infra.apiServer.cidrs', apiServer.cidrs)].flatMap(formMistakes),
    ...overlapsIn(own),
  ]
}

function formMistakes({ path, text, range }: Cidr): string[] {
  if (range === undefined) return [`${path}: ${text} is no range that policies know`]
  const isFirst = parseAddress(text.split('/')[0] ?? '')?.value === range.first
  return isFirst ? [] : [`${path}: ${text} has bits behind its prefix`]
}

function overlapsIn(cidrs: readonly Cidr[]): string[] {
  return cidrs.flatMap((a, index) =>
    cidrs
      .slice(index + 1)
      .filter((b) => a.range && b.range && overlaps(a.range, b.range))
      .map((b) => `${b.path}: ${b.text} overlaps ${a.text} of ${a.path}`),
  )
}

/** Keys of `egress` that only mode `proxy` reads. */
const PROXY_KEYS = ['proxyAddress', 'credentials', 'roots', 'isNetworkEncrypted', 'upstreamProxy'] as const

function proxyMistakes(egress: Environment['egress'], services: readonly string[]): string[] {
  const { mode, proxyAddress } = egress
  if (mode !== 'proxy')
    return PROXY_KEYS.filter((key) => egress[key] !== undefined).map(
      (key) => `egress.${key}: is there, but the mode is ${mode}`,
    )
  if (proxyAddress === undefined)
    return [
      'egress.proxyAddress: is missing, and in mode proxy sandboxes have no resolver to find the proxy by',
    ]
  const address = parseAddress(proxyAddress)
  const isOfService = services.some((text) => {
    const range = parseRange(text)
    return address && range && contains(range, address)
  })
  return isOfService ? [] : [`egress.proxyAddress: ${proxyAddress} is in none of infra.network.serviceCidrs`]
}

function proxySizeMistakes(
  { egress, infra }: Pick<Environment, 'egress' | 'infra'>,
  { egressProxy }: Environment['sizes'],
): string[] {
  const { mode } = egress
  const reason = reasonForCredentials({ egress, infra })
  if (mode === 'proxy') {
    if (egressProxy === undefined) return ['sizes.egressProxy: is missing, and the mode is proxy']
    if ((reason === undefined) === (egressProxy.credentials === undefined)) return []
    return reason === undefined
      ? ['sizes.egressProxy.credentials: is there, but neither egress.credentials nor infra.azure is']
      : [`sizes.egressProxy.credentials: is missing, and ${reason}`]
  }
  return egressProxy === undefined ? [] : [`sizes.egressProxy: is there, but the mode is ${mode}`]
}

/** The setup identity administers the database server. A preview must never get it. */
function setupMistakes({ azure }: Environment['infra'], slice: Environment['slice']): string[] {
  if (!azure || (azure.databaseSetup === undefined) === (slice.kind === 'preview')) return []
  return slice.kind === 'preview'
    ? ['infra.azure.databaseSetup: is there, and a preview must not administer the database: take it out']
    : ['infra.azure.databaseSetup: is missing: run "pulumi up" and "npm run environment" again']
}

function gatewayMistakes({ gateway, dns }: Environment['infra']): string[] {
  const hasBoth = gateway.tlsOptions !== undefined && gateway.tlsSecret !== undefined
  const hasNone = gateway.tlsOptions === undefined && gateway.tlsSecret === undefined
  return [
    ...(hasBoth || hasNone ? ['infra.gateway: needs exactly one of tlsOptions and tlsSecret'] : []),
    ...(dns.zone === dns.previewZone
      ? ['infra.dns.previewZone: must not be infra.dns.zone: a preview would share a site with the API']
      : []),
  ]
}

function containerMistakes({ sandboxes, api, egressProxy }: Environment['sizes']): string[] {
  const scaled = [
    ['sizes.api', api] as const,
    ...(egressProxy ? [['sizes.egressProxy', egressProxy] as const] : []),
  ]
  const sizes: readonly (readonly [string, ContainerSize])[] = [
    ...SandboxKind.options.flatMap((kind) => [
      [`sizes.sandboxes.${kind}.agentHost`, sandboxes[kind].agentHost] as const,
      [`sizes.sandboxes.${kind}.toolbox`, sandboxes[kind].toolbox] as const,
    ]),
    ...scaled.map(([path, { container }]) => [`${path}.container`, container] as const),
    ...(egressProxy?.credentials
      ? [['sizes.egressProxy.credentials', egressProxy.credentials] as const]
      : []),
  ]
  return [
    ...sizes
      .filter(([, size]) => size.cpuMillis > size.maxCpuMillis)
      .map(([path]) => `${path}.cpuMillis: is above maxCpuMillis`),
    ...scaled
      .filter(([, { replicas, maxReplicas }]) => replicas > maxReplicas)
      .map(([path]) => `${path}.replicas: is above ${path}.maxReplicas`),
  ]
}

/**
 * The quota must hold the warm pods plus one pod of the larger class per permitted claim, so that the API
 * server rejects a claim and not its pod.
 */
function quotaMistakes({ sandboxes, controlPlane, api }: Environment['sizes']): string[] {
  const needs = podNeeds(sandboxes)
  const { quota } = sandboxes
  const resources = ['cpuMillis', 'maxCpuMillis', 'memoryMib', 'ephemeralMib'] as const
  const short = resources.flatMap((resource) => {
    const warm = SandboxKind.options.reduce((sum, kind) => sum + needs[kind].warm * needs[kind][resource], 0)
    const least = warm + quota.claims * Math.max(...SandboxKind.options.map((kind) => needs[kind][resource]))
    return quota[resource] < least
      ? [
          `sizes.sandboxes.quota.${resource}: is ${quota[resource]}, but the pools and ${quota.claims} claims need ${least}, overhead included`,
        ]
      : []
  })
  const pods = quota.claims + SandboxKind.options.reduce((sum, kind) => sum + needs[kind].warm, 0)
  const apiMemory = api.container.memoryMib * (api.maxReplicas + 1) + DATABASE_SETUP_SIZE.memoryMib
  return [
    ...short,
    ...(quota.pods < pods
      ? [`sizes.sandboxes.quota.pods: is ${quota.pods}, but the pools and claims need ${pods}`]
      : []),
    ...(controlPlane.quota.memoryMib < apiMemory
      ? [
          `sizes.controlPlane.quota.memoryMib: is ${controlPlane.quota.memoryMib}, but the API and the Job before it need ${apiMemory} during a rollout`,
        ]
      : []),
  ]
}

function runMistakes({ api, runs, sandboxes }: Environment['sizes']): string[] {
  return [
    ...((api.maxStreamsPerOwner ?? 0) > (api.maxStreams ?? MAX_STREAMS)
      ? ['sizes.api.maxStreamsPerOwner: is above sizes.api.maxStreams']
      : []),
    ...(runs.maxRuns > sandboxes.quota.claims
      ? [
          `sizes.runs.maxRuns: is ${runs.maxRuns}, but sizes.sandboxes.quota.claims is ${sandboxes.quota.claims}`,
        ]
      : []),
    ...(runs.maxRunsPerOwner > runs.maxRuns
      ? ['sizes.runs.maxRunsPerOwner: is above sizes.runs.maxRuns']
      : []),
    ...(runs.maxLaunches > runs.maxRuns ? ['sizes.runs.maxLaunches: is above sizes.runs.maxRuns'] : []),
    ...(runs.maxQueuedPerOwner > runs.maxQueued
      ? ['sizes.runs.maxQueuedPerOwner: is above sizes.runs.maxQueued']
      : []),
  ]
}

function registryMistakes(images: Environment['images'], { registry }: Environment['infra']): string[] {
  return Object.entries(images)
    .filter(([, image]) => !image.startsWith(`${registry.host}/`))
    .map(
      ([name, image]) =>
        `images.${name}: ${image} is not from ${registry.host}, the registry of this environment`,
    )
}
