import { SandboxKind } from '../../contracts/names.ts'
import { isNetworkAddress, rangesOverlap } from './cidr.ts'
import { podNeeds } from './pod-needs.ts'
import type { ContainerSize, Environment } from './schema.ts'

type Rule = (found: Partial<Environment>) => readonly string[]

/** What no field shows alone. A rule whose sections did not parse says nothing: their own mistakes are told already. */
export function contradictions(found: Partial<Environment>): string[] {
  return RULES.flatMap((rule) => rule(found))
}

const RULES: readonly Rule[] = [
  ({ infra }) => (infra ? rangeMistakes(infra) : []),
  ({ infra }) => (infra ? gatewayMistakes(infra) : []),
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
  ({ images, infra }) => (images && infra ? registryMistakes(images, infra) : []),
]

function rangeMistakes({ network, apiServer, database }: Environment['infra']): string[] {
  const groups = Object.entries({
    'infra.network.serviceCidrs': network.serviceCidrs,
    'infra.network.podCidrs': network.podCidrs,
    'infra.network.nodeCidrs': network.nodeCidrs,
    'infra.database.cidr': [database.cidr],
  })
  const crooked = [...groups, ['infra.apiServer.cidrs', apiServer.cidrs] as const].flatMap(([path, ranges]) =>
    ranges
      .filter((range) => !isNetworkAddress(range))
      .map((range) => `${path}: ${range} has bits behind its prefix`),
  )
  const flat = groups.flatMap(([path, ranges]) => ranges.map((range) => ({ path, range })))
  const overlaps = flat.flatMap((a, index) =>
    flat
      .slice(index + 1)
      .filter((b) => rangesOverlap(a.range, b.range))
      .map((b) => `${b.path}: ${b.range} overlaps ${a.range} of ${a.path}`),
  )
  return [...crooked, ...overlaps]
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

function containerMistakes({ sandboxes, api }: Environment['sizes']): string[] {
  const sizes: readonly (readonly [string, ContainerSize])[] = [
    ...SandboxKind.options.flatMap((kind) => [
      [`sizes.sandboxes.${kind}.agentHost`, sandboxes[kind].agentHost] as const,
      [`sizes.sandboxes.${kind}.toolbox`, sandboxes[kind].toolbox] as const,
    ]),
    ['sizes.api.container', api.container],
  ]
  return [
    ...sizes
      .filter(([, size]) => size.cpuMillis > size.maxCpuMillis)
      .map(([path]) => `${path}.cpuMillis: is above maxCpuMillis`),
    ...(api.replicas > api.maxReplicas ? ['sizes.api.replicas: is above sizes.api.maxReplicas'] : []),
  ]
}

/** Warm pods and as many runs as there may be claims, all of the larger class: the claim is then what is refused. */
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
  const apiMemory = api.container.memoryMib * (api.maxReplicas + 1)
  return [
    ...short,
    ...(quota.pods < pods
      ? [`sizes.sandboxes.quota.pods: is ${quota.pods}, but the pools and claims need ${pods}`]
      : []),
    ...(controlPlane.quota.memoryMib < apiMemory
      ? [
          `sizes.controlPlane.quota.memoryMib: is ${controlPlane.quota.memoryMib}, but the API needs ${apiMemory} while it rolls out`,
        ]
      : []),
  ]
}

function runMistakes({ runs, sandboxes }: Environment['sizes']): string[] {
  return [
    ...(runs.maxRuns > sandboxes.quota.claims
      ? [
          `sizes.runs.maxRuns: is ${runs.maxRuns}, but sizes.sandboxes.quota.claims is ${sandboxes.quota.claims}`,
        ]
      : []),
    ...(runs.maxRunsPerOwner > runs.maxRuns
      ? ['sizes.runs.maxRunsPerOwner: is above sizes.runs.maxRuns']
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
