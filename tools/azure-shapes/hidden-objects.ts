import { isUnknown, type Plan, type PlannedValue } from '../../contracts/planned-resource.ts'
import type { Shapes } from './check-shapes.ts'
import type { JsonSchema } from './type-schema.ts'

export interface HiddenObject {
  readonly urn: string
  readonly path: string
}

/**
 * Objects of Azure's inputs that a plan does not show although Azure declares their fields. One unknown value inside is
 * enough where the SDK fills in defaults: then no reader, rule or shape check sees the rest.
 */
export function hiddenObjects(plan: Plan, shapes: Shapes): HiddenObject[] {
  return plan.resources.flatMap(({ urn, type, inputs }) => {
    const root = shapes.get(type)?.schema as Schema | undefined
    return root === undefined ? [] : hiddenIn(inputs, root, { root, at: '' }).map((path) => ({ urn, path }))
  })
}

type Schema = JsonSchema & {
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, Schema>>
  readonly else?: Schema
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
}

interface Place {
  readonly root: Schema
  readonly at: string
}

function hiddenIn(value: PlannedValue, declared: Schema, { root, at }: Place): string[] {
  const schema = resolve(declared, root)
  if (isUnknown(value)) return at !== '' && isObject(schema, root) ? [at] : []
  if (Array.isArray(value)) {
    const items = schema.items
    return items === undefined
      ? []
      : value.flatMap((item, i) => hiddenIn(item, items, { root, at: `${at}[${i}]` }))
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    const property = schema.properties?.[key]
    return property === undefined
      ? []
      : hiddenIn(inner, property, { root, at: at === '' ? key : `${at}.${key}` })
  })
}

function resolve(declared: Schema, root: Schema): Schema {
  const schema = declared.else ?? declared
  return (schema.$ref && root.$defs?.[schema.$ref.slice('#/$defs/'.length)]) || schema
}

function isObject(schema: Schema, root: Schema): boolean {
  return (
    schema.properties !== undefined ||
    (schema.items !== undefined && isObject(resolve(schema.items, root), root))
  )
}
