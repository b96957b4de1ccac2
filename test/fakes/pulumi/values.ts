/** Property values as they cross the wire: JSON, with Pulumi's markers as objects and one reserved string. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
export type Properties = { readonly [key: string]: Json }

/** The reserved words of the wire, from `sdk/proto` of Pulumi. */
const SIGNATURE = '4dabf18193072939515e22adb298388d'
const SECRET = '1b47061264138c4ac30d75fd1eb44270'
const OUTPUT = 'd0e6a833031e9bbcd3f4e8bde6ca49a4'
const REFERENCE = '5cf8f73096256a8f31e491e813e4eb8e'
export const UNKNOWN = '04da6b54-80e4-46f7-96ec-b56ff0331ba9'

export const isObject = (value: Json | undefined): value is Properties =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isList = (value: Json | undefined): value is readonly Json[] => Array.isArray(value)

const markOf = (value: Json) => (isObject(value) ? value[SIGNATURE] : undefined)
export const secret = (value: Json): Properties => ({ [SIGNATURE]: SECRET, value })
export const isSecret = (value: Json) => markOf(value) === SECRET

/** Rebuilds a value from its leaves up. `visit` may return a replacement for any part, children first. */
export function mapValue(value: Json, visit: (part: Json) => Json): Json {
  if (isList(value)) return visit(value.map((item) => mapValue(item, visit)))
  if (!isObject(value)) return visit(value)
  return visit(Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapValue(item, visit)])))
}

/** An output value as the older forms say it: the value itself, a secret, or the unknown string. */
function simplify(part: Json): Json {
  const mark = markOf(part)
  if (!isObject(part)) return part
  if (mark === REFERENCE) return part['id'] ?? part['urn'] ?? UNKNOWN
  if (mark !== OUTPUT) return part
  const value = part['value'] ?? UNKNOWN
  return part['secret'] === true ? secret(value) : value
}

/** Without output values and resource references: what the engine hands a provider. */
export const simplified = (value: Json): Json => mapValue(value, simplify)
/** The value without secret markers, as a provider without support for secrets receives it. */
export const plain = (value: Json): Json =>
  mapValue(simplified(value), (part) => (isObject(part) && isSecret(part) ? (part['value'] ?? null) : part))
export const plainProperties = (value: Properties): Properties => plain(value) as Properties

/** Nulls count as absent, as in every provider's `SkipNulls`. */
export const withoutNulls = (value: Properties): Properties =>
  mapValue(value, (part) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).filter(([, item]) => item !== null)) : part,
  ) as Properties

function some(value: Json, test: (part: Json) => boolean): boolean {
  if (test(value)) return true
  if (isList(value)) return value.some((item) => some(item, test))
  return isObject(value) && Object.values(value).some((item) => some(item, test))
}
export const hasUnknown = (value: Json) => some(value, (part) => part === UNKNOWN)
export const hasSecret = (value: Json) => some(value, isSecret)

/** The value with every secret removed: the part of a state file that any reader can see. */
export const readable = (value: Json): Json => mapValue(value, (part) => (isSecret(part) ? '[secret]' : part))

/** `a.b[0]["key.with.dots"]`, as Pulumi writes paths. */
const SEGMENT = /\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g
const segments = (path: string): string[] =>
  [...path.matchAll(SEGMENT)].map(([, quoted, bare]) => bare ?? (quoted ?? '').replace(/\\(.)/g, '$1'))
function joined(path: string, key: string): string {
  if (!/^[\w$-]+$/.test(key)) return `${path}[${JSON.stringify(key)}]`
  return path === '' ? key : `${path}.${key}`
}

export function valueAt(value: Json | undefined, path: string): Json | undefined {
  const step = (current: Json | undefined, key: string): Json | undefined => {
    if (isList(current)) return current[Number(key)]
    return isObject(current) ? current[key] : undefined
  }
  return segments(path).reduce(step, value)
}

/** Returns a copy with another value at `path`; undefined removes it. Missing parent objects are created. */
export function withValueAt<T extends Json>(value: T, path: string, next: Json | undefined): T {
  const keys = segments(path)
  const set = (current: Json | undefined, depth: number): Json | undefined => {
    const key = keys[depth]
    if (key === undefined) return next
    if (isList(current))
      return current.map((item, index) => (index === Number(key) ? (set(item, depth + 1) ?? null) : item))
    const { [key]: old, ...rest } = isObject(current) ? current : {}
    const child = set(old, depth + 1)
    return child === undefined ? rest : { ...rest, [key]: child }
  }
  return set(value, 0) as T
}

type Kind = 'add' | 'delete' | 'update'

function compareLists(
  old: readonly Json[],
  next: readonly Json[],
  path: string,
): (readonly [string, Kind])[] {
  const length = Math.max(old.length, next.length)
  return Array.from({ length }, (_, index) => compare(old[index], next[index], `${path}[${index}]`)).flat()
}

function compare(old: Json | undefined, next: Json | undefined, path: string): (readonly [string, Kind])[] {
  if (old === undefined && next === undefined) return []
  if (old === undefined) return [[path, 'add']]
  if (next === undefined) return [[path, 'delete']]
  if (isList(old) && isList(next)) return compareLists(old, next, path)
  if (isObject(old) && isObject(next)) return compareObjects(old, next, path)
  return old === next ? [] : [[path, 'update']]
}

function compareObjects(old: Properties, next: Properties, path: string) {
  const keys = [...new Set([...Object.keys(old), ...Object.keys(next)])].sort()
  return keys.flatMap((key) => compare(old[key], next[key], joined(path, key)))
}

/** Changes by path (`a.b[0].c`), in the order of the keys. */
export const differences = (old: Properties, next: Properties): ReadonlyMap<string, Kind> =>
  new Map(compareObjects(old, next, ''))

/** `over` laid over `under`, objects key by key; lists of equal length item by item, others as a whole. */
export function overlay(under: Json | undefined, over: Json | undefined): Json {
  if (over === undefined) return under ?? null
  if (isList(under) && isList(over) && under.length === over.length)
    return over.map((item, index) => overlay(under[index], item))
  if (!isObject(under) || !isObject(over)) return over
  const keys = [...Object.keys(under), ...Object.keys(over).filter((key) => !(key in under))]
  return Object.fromEntries(keys.map((key) => [key, overlay(under[key], over[key])]))
}
