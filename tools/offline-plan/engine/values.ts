import type { PlannedValue } from '../../../contracts/planned-resource.ts'

/** What stands for a value that is not known before creation (`unknownValue` of the SDK's `runtime/rpc`). */
export const UNKNOWN = '04da6b54-80e4-46f7-96ec-b56ff0331ba9'

/** Key that marks a special value, and the marks that a program can send. */
const SIGNATURE = '4dabf18193072939515e22adb298388d'
const SECRET = '1b47061264138c4ac30d75fd1eb44270'
const OUTPUT_VALUE = 'd0e6a833031e9bbcd3f4e8bde6ca49a4'
const RESOURCE_REFERENCE = '5cf8f73096256a8f31e491e813e4eb8e'

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/** Converts a value from the wire for a plan. Secrets are left out; `from` names the source of unknown values. */
export function toPlanned(value: unknown, from: string): PlannedValue {
  if (value === UNKNOWN) return { $unknown: from }
  if (Array.isArray(value)) return value.map((item) => toPlanned(item, from))
  if (!isObject(value)) return value === undefined ? null : (value as PlannedValue)
  switch (value[SIGNATURE]) {
    case undefined:
      return plainObject(value, from)
    case SECRET:
      return { $secret: true }
    case OUTPUT_VALUE:
      return fromOutput(value, from)
    case RESOURCE_REFERENCE:
      return String(value['urn'])
    default:
      throw new TypeError(`a value of kind ${String(value[SIGNATURE])} is none that a plan can hold`)
  }
}

function plainObject(value: Record<string, unknown>, from: string): PlannedValue {
  const entries = Object.entries(value).map(([key, inner]) => [key, toPlanned(inner, from)] as const)
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function fromOutput(value: Record<string, unknown>, from: string): PlannedValue {
  if (value['secret'] === true) return { $secret: true }
  return 'value' in value ? toPlanned(value['value'], from) : { $unknown: from }
}

/** Removes the marks of secrets, so that the program reads back values in the shape that it wrote. */
export function withoutMarks(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutMarks)
  if (!isObject(value)) return value
  if (value[SIGNATURE] === OUTPUT_VALUE) return 'value' in value ? withoutMarks(value['value']) : UNKNOWN
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutMarks(inner)]))
}
