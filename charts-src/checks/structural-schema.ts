import { fieldAt, isRecord, listAt, recordAt, textAt } from './read-fields.ts'

type Schema = Readonly<Record<string, unknown>>

/** Fields of every object, which the API server accepts without a schema. */
const OBJECT_FIELDS = ['apiVersion', 'kind', 'metadata']

/** Validates an object against a structural schema. Returns each fault with its path. */
export function schemaFaults(schema: Schema, object: unknown): string[] {
  return faultsAt(schema, { value: object, path: '', isRoot: true })
}

interface Place {
  readonly value: unknown
  readonly path: string
  readonly isRoot?: boolean
  /**
   * True inside `anyOf` and similar keywords, which restrict values only. The surrounding schema defines the
   * fields.
   */
  readonly isBranch?: boolean
}

function faultsAt(schema: Schema, place: Place): string[] {
  const { value, path } = place
  if (value === null) return schema['nullable'] === true ? [] : [`${path}: is null`]
  const typeFault = faultOfType(schema, value)
  if (typeFault) return [`${path}: ${typeFault}`]
  return [
    ...faultsOfValue(schema, value).map((fault) => `${path}: ${fault}`),
    ...(isRecord(value) ? faultsOfRecord(schema, { ...place, value }) : []),
    ...(Array.isArray(value) ? faultsOfList(schema, { ...place, value }) : []),
    ...faultsOfAlternatives(schema, place),
  ]
}

function faultOfType(schema: Schema, value: unknown): string | undefined {
  if (schema['x-kubernetes-int-or-string'] === true) {
    return Number.isInteger(value) || typeof value === 'string' ? undefined : 'must be an integer or a text'
  }
  const wanted = textAt(schema, 'type')
  if (wanted === undefined || typeOf(value) === wanted) return undefined
  if (wanted === 'number' && typeOf(value) === 'integer') return undefined
  return `must be of type ${wanted}, not ${typeOf(value)}`
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

function faultsOfValue(schema: Schema, value: unknown): string[] {
  const allowed = listAt(schema, 'enum')
  const isListed = allowed.length === 0 || allowed.includes(value)
  return [
    ...(isListed ? [] : [`${JSON.stringify(value)} is not one of ${allowed.join(', ')}`]),
    ...(typeof value === 'string' ? faultsOfText(schema, value) : []),
    ...(typeof value === 'number' ? outside(value, [schema['minimum'], schema['maximum']], 'is') : []),
  ]
}

function faultsOfText(schema: Schema, value: string): string[] {
  const pattern = textAt(schema, 'pattern')
  const isMatch = pattern === undefined || new RegExp(pattern, 'u').test(value)
  return [
    ...outside(value.length, [schema['minLength'], schema['maxLength']], 'has the length'),
    ...(isMatch ? [] : [`${JSON.stringify(value)} does not match ${pattern}`]),
  ]
}

function outside(value: number, [min, max]: readonly [unknown, unknown], what: string): string[] {
  if (typeof min === 'number' && value < min) return [`${what} ${value}, below ${min}`]
  if (typeof max === 'number' && value > max) return [`${what} ${value}, above ${max}`]
  return []
}

function faultsOfRecord(schema: Schema, place: Place & { readonly value: Schema }): string[] {
  const { value, path, isBranch = false, isRoot = schema['x-kubernetes-embedded-resource'] === true } = place
  const properties = recordAt(schema, 'properties')
  const extra = fieldAt(schema, 'additionalProperties')
  const isOpen = isBranch || schema['x-kubernetes-preserve-unknown-fields'] === true || extra === true
  const missing = listAt(schema, 'required').filter((key) => value[String(key)] === undefined)
  const entries = Object.entries(value).filter(([key]) => !(isRoot && OBJECT_FIELDS.includes(key)))
  const known = (key: string) => properties[key] ?? (isRecord(extra) ? extra : undefined)
  return [
    ...missing.map((key) => `${path}: lacks ${key}`),
    ...outside(entries.length, [schema['minProperties'], schema['maxProperties']], `${path}: has the size`),
    ...entries.flatMap(([key, member]) => {
      const inner = known(key)
      if (isRecord(inner)) return faultsAt(inner, { value: member, path: join(path, key), isBranch })
      return isOpen ? [] : [`${join(path, key)}: is a field that the cluster does not know`]
    }),
  ]
}

const join = (path: string, key: string) => (path === '' ? key : `${path}.${key}`)

function faultsOfList(schema: Schema, place: Place & { readonly value: readonly unknown[] }): string[] {
  const { value, path, isBranch = false } = place
  const items = recordAt(schema, 'items')
  return [
    ...outside(value.length, [schema['minItems'], schema['maxItems']], `${path}: has the length`),
    ...value.flatMap((item, index) => faultsAt(items, { value: item, path: `${path}[${index}]`, isBranch })),
    ...faultsOfKeys(schema, value).map((fault) => `${path}: ${fault}`),
  ]
}

/** The API server merges entries of a list-map that have equal keys. */
function faultsOfKeys(schema: Schema, value: readonly unknown[]): string[] {
  const keys = listAt(schema, 'x-kubernetes-list-map-keys').map(String)
  if (keys.length === 0) return []
  const names = value.map((item) => JSON.stringify(keys.map((key) => fieldAt(item, key) ?? null)))
  const twice = names.filter((name, index) => names.indexOf(name) !== index)
  return twice.map((name) => `two entries have the same ${keys.join(', ')}: ${name}`)
}

function faultsOfAlternatives(schema: Schema, { value, path }: Place): string[] {
  const holds = (branch: unknown) =>
    isRecord(branch) && faultsAt(branch, { value, path: '', isBranch: true }).length === 0
  const all = listAt(schema, 'allOf').filter((branch) => !holds(branch))
  const any = listAt(schema, 'anyOf')
  const one = listAt(schema, 'oneOf')
  const count = one.filter(holds).length
  return [
    ...all.map((branch) => `${path}: does not hold ${JSON.stringify(branch)}`),
    ...(any.length > 0 && !any.some(holds) ? [`${path}: holds none of ${JSON.stringify(any)}`] : []),
    ...(one.length > 0 && count !== 1 ? [`${path}: holds ${count} of ${JSON.stringify(one)}`] : []),
    ...(isRecord(schema['not']) && holds(schema['not'])
      ? [`${path}: holds ${JSON.stringify(schema['not'])}`]
      : []),
  ]
}
