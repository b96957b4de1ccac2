import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import type { Draft } from './examples/attempt.ts'

/** One field of a strict object made otherwise. */
export interface Mutant {
  /** Where, in the words of a person: `spec.containers[toolbox].securityContext.privileged: true`. */
  readonly what: string
  /** The field alone, without the value. */
  readonly path: string
  readonly object: KubeObject
}

type Step = string | number
/** An OpenAPI schema, as far as values can be made from it. */
export interface Schema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly additionalProperties?: Schema
  readonly enum?: readonly unknown[]
  readonly required?: readonly string[]
  readonly $ref?: string
  readonly allOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly format?: string
}
export type Schemas = Readonly<Record<string, Schema>>

/** Every field removed, and every value changed for others of its type. */
export function changedFields(object: KubeObject, roots: readonly (readonly string[])[]): Mutant[] {
  return roots.flatMap((root) => walk(object, root))
}

function walk(object: KubeObject, path: readonly Step[]): Mutant[] {
  const value = at(object, path)
  const removed = mutant(object, path, { isRemoved: true })
  if (typeof value !== 'object' || value === null) {
    return [removed, ...othersOf(value).map((other) => mutant(object, path, { value: other }))]
  }
  const keys: Step[] = Array.isArray(value) ? value.map((_, index) => index) : Object.keys(value)
  return [removed, ...keys.flatMap((key) => walk(object, [...path, key]))]
}

function othersOf(value: unknown): unknown[] {
  if (typeof value === 'boolean') return [!value]
  if (typeof value === 'number') return [0, value + 1, 2_000_000]
  if (typeof value !== 'string') return []
  // Quantities want to be quantities, everything else takes a word.
  return /^\d+[A-Za-z]*$/.test(value) ? ['0', '900Gi'] : ['other', '']
}

/** Every field that the API server's schema knows and the object does not have. */
export function addedFields(object: KubeObject, root: Schema, schemas: Schemas): Mutant[] {
  return grow({ object, schemas, path: ['spec'] }, resolve(root.properties?.['spec'] ?? {}, schemas))
}

interface Place {
  readonly object: KubeObject
  readonly schemas: Schemas
  readonly path: readonly Step[]
}

function grow(place: Place, schema: Schema): Mutant[] {
  const { object, schemas, path } = place
  const value = at(object, path)
  if (Array.isArray(value)) {
    const items = resolve(schema.items ?? {}, schemas)
    const more = samplesOf(items, schemas, 0).map((item) =>
      mutant(object, [...path, value.length], { value: item }),
    )
    return [...more, ...value.flatMap((_, index) => grow({ ...place, path: [...path, index] }, items))]
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const known = resolve(property, schemas)
    const next = [...path, name]
    if (name in value) return grow({ ...place, path: next }, known)
    return samplesOf(known, schemas, 0).map((sample) => mutant(object, next, { value: sample }))
  })
}

function resolve(schema: Schema, schemas: Schemas): Schema {
  const reference = schema.$ref ?? schema.allOf?.find((part) => part.$ref)?.$ref
  if (!reference) return schema
  return resolve(schemas[reference.split('/').at(-1) ?? ''] ?? {}, schemas)
}

const DEEPEST = 3
/** Down to here every alternative of a field is tried, below one of each. */
const WIDE = 1

const SCALARS: Readonly<Record<string, readonly unknown[]>> = {
  boolean: [true, false],
  integer: [0, 1000],
  number: [0, 1000],
  string: ['other', '/other'],
}

/** Values that a schema takes: the smallest object, one element, both booleans, every word of an enumeration. */
function samplesOf(schema: Schema, schemas: Schemas, depth: number): readonly unknown[] {
  // A port or a quantity: a number that may be a text.
  if (schema.oneOf) return [schema.format === 'int-or-string' ? 8080 : '1']
  const scalars = schema.enum ?? SCALARS[schema.type ?? '']
  if (scalars) return scalars
  if (depth > DEEPEST) return []
  if (schema.type !== 'array') return objectsOf(schema, schemas, depth)
  return samplesOf(resolve(schema.items ?? {}, schemas), schemas, depth + 1).map((item) => [item])
}

/** An object with its required fields, and one more object for each optional field. */
function objectsOf(schema: Schema, schemas: Schemas, depth: number): unknown[] {
  if (schema.additionalProperties) return [{ other: '1' }]
  const properties = Object.entries(schema.properties ?? {})
  const samples = (property: Schema): readonly unknown[] =>
    samplesOf(resolve(property, schemas), schemas, depth + 1)
  const required = properties.filter(([name]) => schema.required?.includes(name))
  const least = Object.fromEntries(required.map(([name, property]) => [name, samples(property)[0]]))
  const optional = properties.filter(([name]) => !schema.required?.includes(name))
  const alternatives = optional.flatMap(([name, property]) =>
    samples(property)
      .slice(0, depth < WIDE ? undefined : 1)
      .map((sample) => ({ ...least, [name]: sample })),
  )
  return [least, ...alternatives]
}

function at(object: unknown, path: readonly Step[]): unknown {
  return path.reduce<unknown>((value, step) => (value as Draft | undefined)?.[step as string], object)
}

function mutant(
  object: KubeObject,
  path: readonly Step[],
  { value, isRemoved = false }: { value?: unknown; isRemoved?: boolean },
): Mutant {
  // Parts that the object has twice become two.
  const copy: Draft = JSON.parse(JSON.stringify(object))
  const parent = at(copy, path.slice(0, -1)) as Draft
  const last = path.at(-1) ?? ''
  if (!isRemoved) parent[last as string] = value
  else if (Array.isArray(parent)) parent.splice(Number(last), 1)
  else delete parent[last as string]
  const where = spell(object, path)
  return {
    path: where,
    what: isRemoved ? `${where} removed` : `${where}: ${JSON.stringify(value)}`,
    object: copy as KubeObject,
  }
}

/** Elements by their name, so that a path reads and stays the same when lists are reordered. */
function spell(object: KubeObject, path: readonly Step[]): string {
  return path.reduce<string>((text, step, index) => {
    if (typeof step === 'string') return text === '' ? step : `${text}.${step}`
    const element = at(object, path.slice(0, index + 1))
    const name = (element as Draft | undefined)?.['name']
    return `${text}[${typeof name === 'string' ? name : step}]`
  }, '')
}

const STRUCTURE = ['spec', 'metadata', 'containers', 'initContainers', 'volumes']

/** Whether a refusal names the field, or one that holds it: not only the part of the object. */
export function names(message: string, { path, what }: Mutant): boolean {
  const [list = ''] = path.split('[')
  if (message.includes(`${list}:`)) return true
  const fields = path.split(/[.[\]]+/).filter((part) => part !== '' && !STRUCTURE.includes(part))
  // An added element is identified by its name or its content.
  const added = [...what.matchAll(/"([A-Za-z]+)":(?:"([^"]+)")?/g)].map(([, field = '', value = '']) =>
    field === 'name' ? value : field,
  )
  return [...fields, ...added].some((field) => field !== '' && message.includes(field))
}

/** An object as it would be stored, in a form that can be compared. */
export function stored({ metadata, ...rest }: KubeObject): string {
  return JSON.stringify([rest['spec'], metadata.labels ?? {}, metadata.annotations ?? {}], sortKeys)
}

function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
