/** A value that is known only while the deployment runs, with the expression that gives it. */
export class Late {
  readonly value: Value
  constructor(value: Value) {
    this.value = value
  }
}

/** A resource group, as `resourceGroup()` returns it. */
export class Group {
  readonly id: string
  readonly name: string
  constructor(id: string, name: string) {
    this.id = id
    this.name = name
  }
}

/** A resource of a deployment, or one that it looks up. The properties of one whose condition is false are unknown. */
export class Resource {
  readonly type: string
  readonly name: string
  readonly id: string
  readonly isDeployed: boolean
  constructor(
    address: { readonly type: string; readonly name: string; readonly id: string },
    isDeployed: boolean,
  ) {
    this.type = address.type
    this.name = address.name
    this.id = address.id
    this.isDeployed = isDeployed
  }
}

/** A module of a deployment. */
export class Module {
  readonly outputs: () => Fields
  constructor(outputs: () => Fields) {
    this.outputs = outputs
  }
}

export type Fields = { readonly [key: string]: Value }
export type Value =
  | string
  | number
  | boolean
  | null
  | readonly Value[]
  | Fields
  | Late
  | Group
  | Resource
  | Module

const NOT_PLAIN = [Late, Group, Resource, Module]
export const isFields = (value: Value): value is Fields =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !NOT_PLAIN.some((one) => value instanceof one)

/** One member of a value. A missing member throws, like a compiler's type check. */
export function memberOf(value: Value, key: string | number): Value {
  if (value instanceof Late) return memberOfLate(value, key)
  if (value instanceof Module && key === 'outputs') return new Late(value.outputs())
  const found = membersOf(value)[key]
  if (found === undefined) throw new Error(`there is no ${key}`)
  return found
}

const memberOfLate = ({ value }: Late, key: string | number) =>
  new Late(typeof value === 'string' ? `${value}.${key}` : memberOf(value, key))

function membersOf(value: Value): Readonly<Record<string, Value>> {
  if (Array.isArray(value)) return Object.fromEntries(Object.entries(value))
  if (value instanceof Group) return { id: value.id, name: value.name }
  if (!(value instanceof Resource)) return isFields(value) ? value : {}
  const { id, name, isDeployed } = value
  return isDeployed ? { id, name, properties: new Late(`reference(${id})`) } : { id, name }
}

/** The value as the deployment sends it. */
export function plainOf(value: Value): unknown {
  if (value instanceof Late) return plainOf(value.value)
  if (Array.isArray(value)) return value.map(plainOf)
  if (isFields(value))
    return Object.fromEntries(
      Object.entries(value).flatMap(([key, one]) => (one === null ? [] : [[key, plainOf(one)]])),
    )
  if (typeof value === 'object' && value !== null) throw new Error('a resource is not a value')
  return value
}

/** Names, scopes, conditions, loops and parameters of modules must be known before the deployment starts. */
export function knownAtStart(value: Value, what: string): Value {
  const isLate = (one: Value): boolean =>
    one instanceof Late ||
    (Array.isArray(one) ? one.some(isLate) : isFields(one) && Object.values(one).some(isLate))
  if (isLate(value)) throw new Error(`${what} is not known when the deployment starts`)
  return value
}

export function stringOf(value: Value, what: string): string {
  const known = knownAtStart(value, what)
  if (typeof known !== 'string') throw new Error(`${what} is not a string`)
  return known
}

export function booleanOf(value: Value, what: string): boolean {
  const known = knownAtStart(value, what)
  if (typeof known !== 'boolean') throw new Error(`${what} is not a bool`)
  return known
}

export function arrayOf(value: Value, what: string): readonly Value[] {
  const known = knownAtStart(value, what)
  if (!Array.isArray(known)) throw new Error(`${what} is not an array`)
  return known
}
