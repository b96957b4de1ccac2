import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { JsonSchema } from './type-schema.ts'

const require = createRequire(import.meta.url)

type Constraints = { readonly [name: string]: unknown }
interface MapperType {
  readonly name: string
  readonly className?: string
  readonly modelProperties?: Readonly<Record<string, Mapper>>
  readonly element?: Mapper
  readonly value?: Mapper
}
interface Mapper {
  readonly serializedName?: string
  readonly constraints?: Constraints
  readonly type: MapperType
}
type Mappers = Readonly<Record<string, Mapper>>

/** Mappers of the client of the same service, whose API version is 2025-10-01: azure-native's is 2025-09-01. */
export interface ServiceConstraints {
  readonly models: Mappers
  readonly parameters: Readonly<Record<string, { readonly mapper?: Mapper }>>
}

/** Resources of `containerservice` and the parameter of the path that each one's own name is. */
const MAPPED: Readonly<Record<string, string>> = {
  ManagedCluster: 'resourceName',
  AgentPool: 'agentPoolName',
  MaintenanceConfiguration: 'configName',
  ManagedNamespace: 'managedNamespaceName',
}

/** Read by path: the package does not export its mappers, and versions after 24 have none. */
export async function readServiceConstraints(): Promise<ServiceConstraints> {
  const manifest = require.resolve('@azure/arm-containerservice/package.json')
  const file = (name: string) => pathToFileURL(join(dirname(manifest), 'dist', 'esm', 'models', name)).href
  return { models: await import(file('mappers.js')), parameters: await import(file('parameters.js')) }
}

/** The schema with the service's patterns and ranges in it. */
export function constrain(schema: JsonSchema, resource: string, service: ServiceConstraints): JsonSchema {
  if (!(resource in MAPPED)) return schema
  const copy: Mutable = JSON.parse(JSON.stringify(schema))
  const names = ['resourceGroupName', 'resourceName', MAPPED[resource] ?? '']
  for (const name of new Set(names))
    add(copy.properties?.[name], service.parameters[name]?.mapper?.constraints)
  walk(copy, { copy, models: service.models, seen: new Set() }, service.models[resource]?.type)
  return copy
}

type Mutable = {
  properties?: Record<string, Mutable>
  $defs?: Record<string, Mutable>
  if?: Mutable
  else?: Mutable
  items?: Mutable
  additionalProperties?: Mutable | boolean
  $ref?: string
} & { [keyword: string]: unknown }

interface Walk {
  readonly copy: Mutable
  readonly models: Mappers
  readonly seen: Set<string>
}

/**
 * Walks the schema and the mappers in parallel. Azure nests under `properties` the fields that azure-native keeps flat.
 */
function walk(node: Mutable | undefined, context: Walk, type: MapperType | undefined): void {
  const target = resolve(node, context.copy)
  const model = type?.modelProperties ?? context.models[type?.className ?? '']?.type.modelProperties
  const name = type?.className ?? ''
  if (target === undefined || model === undefined || context.seen.has(name)) return
  context.seen.add(name)
  for (const { serializedName = '', constraints, type: inner } of Object.values(model)) {
    const child = target.properties?.[serializedName.split('.').at(-1) ?? '']
    add(child, constraints)
    walk(contentOf(child, inner), context, inner.element?.type ?? inner.value?.type ?? inner)
  }
}

function resolve(node: Mutable | undefined, root: Mutable): Mutable | undefined {
  const value = node?.if === undefined ? node : node.else
  const name = value?.$ref?.slice('#/$defs/'.length)
  return name === undefined ? value : root.$defs?.[name]
}

function contentOf(node: Mutable | undefined, type: MapperType): Mutable | undefined {
  const value = node?.if === undefined ? node : node.else
  if (type.element !== undefined) return value?.items
  if (type.value === undefined) return value
  return typeof value?.additionalProperties === 'object' ? value.additionalProperties : undefined
}

const KEYWORDS: Readonly<Record<string, string>> = {
  InclusiveMaximum: 'maximum',
  InclusiveMinimum: 'minimum',
  ExclusiveMaximum: 'exclusiveMaximum',
  ExclusiveMinimum: 'exclusiveMinimum',
  MaxLength: 'maxLength',
  MinLength: 'minLength',
  MaxItems: 'maxItems',
  MinItems: 'minItems',
  MultipleOf: 'multipleOf',
  UniqueItems: 'uniqueItems',
}

function add(node: Mutable | undefined, constraints: Constraints | undefined): void {
  const target = node?.if === undefined ? node : node.else
  if (target === undefined || constraints === undefined) return
  for (const [name, value] of Object.entries(constraints)) {
    const keyword = KEYWORDS[name]
    if (keyword !== undefined) target[keyword] = value
    else if (value instanceof RegExp) target['pattern'] = value.source
    else throw new Error(`the mappers hold a constraint that is not known here: ${name}`)
  }
}
