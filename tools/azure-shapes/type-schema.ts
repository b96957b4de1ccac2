import type { TypeNode } from 'typescript'
import ts from 'typescript'
import { type Declarations, literalOf, type Property } from './declarations.ts'

export type JsonSchema = { readonly [keyword: string]: unknown }

/**
 * The two markers of a plan. An object with a marker may have no other property, or any object could pass by carrying a
 * marker.
 */
export const NOT_KNOWN: JsonSchema = {
  type: 'object',
  minProperties: 1,
  maxProperties: 1,
  anyOf: [
    { required: ['$unknown'], properties: { $unknown: { type: 'string' } } },
    { required: ['$secret'], properties: { $secret: { const: true } } },
  ],
}

const PRIMITIVES = new Map([
  [ts.SyntaxKind.StringKeyword, { type: 'string' }],
  [ts.SyntaxKind.NumberKeyword, { type: 'number' }],
  [ts.SyntaxKind.BooleanKeyword, { type: 'boolean' }],
  [ts.SyntaxKind.AnyKeyword, {}],
])

/**
 * Returns a JSON Schema (draft 7) of a resource's inputs, with every type that it needs under `$defs`; undefined if the
 * resource is not declared.
 */
export function schemaOf(declared: Declarations, module: string, resource: string): JsonSchema | undefined {
  const properties = declared.args(module, resource)
  if (properties === undefined) return undefined
  const definitions: Record<string, JsonSchema> = { notKnown: NOT_KNOWN }
  const reader = createReader(declared, definitions)
  return { ...reader.object(properties), $defs: definitions }
}

function createReader(declared: Declarations, definitions: Record<string, JsonSchema>) {
  const object = (properties: readonly Property[]): JsonSchema => ({
    type: 'object',
    additionalProperties: false,
    required: properties.filter(({ isOptional }) => !isOptional).map(({ name }) => name),
    properties: Object.fromEntries(properties.map(({ name, type }) => [name, orNotKnown(schema(type))])),
  })
  const schema = (type: TypeNode): JsonSchema => {
    const primitive = PRIMITIVES.get(type.kind)
    if (primitive !== undefined) return primitive
    if (ts.isParenthesizedTypeNode(type)) return schema(type.type)
    return compound(type)
  }
  const compound = (type: TypeNode): JsonSchema => {
    if (ts.isLiteralTypeNode(type)) return { const: literalOf(type) }
    if (ts.isArrayTypeNode(type)) return { type: 'array', items: orNotKnown(schema(type.elementType)) }
    if (ts.isUnionTypeNode(type)) return union(type.types)
    if (ts.isTypeLiteralNode(type)) return map(type)
    if (ts.isTypeReferenceNode(type)) return reference(type)
    throw new Error(`azure-native uses a form of type that is not known here: ${ts.SyntaxKind[type.kind]}`)
  }
  /** `string | enums.X` means any string to the compiler; Azure accepts only the values of X. */
  const union = (types: readonly TypeNode[]): JsonSchema => {
    const present = types.filter(({ kind }) => kind !== ts.SyntaxKind.UndefinedKeyword)
    const schemas = present.map(schema)
    const enums = schemas.filter((member) => 'enum' in member)
    if (enums.length > 0) return { enum: enums.flatMap((member) => member['enum'] as unknown[]) }
    if (schemas.length === 1 && schemas[0] !== undefined) return schemas[0]
    return tagged(present.map(pathOf)) ?? { anyOf: schemas }
  }
  /** For types that differ in a constant property, builds a schema that selects the type by this property. */
  const tagged = (paths: readonly (readonly string[])[]): JsonSchema | undefined => {
    const members = paths.map(([, module = '', name = '']) => declared.input(module, name))
    const tag = members[0]?.find(({ type }) => constantOf(type) !== undefined)?.name
    const values = members.map((member) => constantOf(member?.find(({ name }) => name === tag)?.type))
    if (tag === undefined || values.includes(undefined)) return undefined
    const branches = values.map((value, index) => ({
      if: { required: [tag], properties: { [tag]: { const: value } } },
      // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema.
      then: definition(paths[index] ?? []),
    }))
    return {
      type: 'object',
      required: [tag],
      properties: { [tag]: orNotKnown({ enum: values }) },
      allOf: branches,
    }
  }
  const map = (type: ts.TypeLiteralNode): JsonSchema => ({
    type: 'object',
    additionalProperties: orNotKnown(schema(elementOf(type))),
  })
  const reference = (type: ts.TypeReferenceNode): JsonSchema => {
    const path = pathOf(type)
    const [inner] = type.typeArguments ?? []
    if (path.join('.') === 'pulumi.Input' && inner !== undefined) return schema(inner)
    const [root, module = '', name = ''] = path
    if (root === 'inputs') return definition(path)
    const values = root === 'enums' ? declared.enumeration(module, name) : undefined
    if (values === undefined)
      throw new Error(`azure-native refers to ${path.join('.')}, which is not known here`)
    return { enum: values }
  }
  const definition = ([, module = '', name = '']: readonly string[]): JsonSchema => {
    const key = `${module}.${name}`
    if (!(key in definitions)) {
      const properties = declared.input(module, name)
      if (properties === undefined)
        throw new Error(`azure-native refers to ${key}, which it does not declare`)
      definitions[key] = {}
      definitions[key] = object(properties)
    }
    return { $ref: `#/$defs/${key}` }
  }
  return { object }
}

/** What `{ [key: string]: T }` maps to. */
function elementOf(type: ts.TypeLiteralNode): TypeNode {
  const [member] = type.members
  if (member !== undefined && ts.isIndexSignatureDeclaration(member)) return member.type
  throw new Error('azure-native declares an object in place in a form that is not known here')
}

function constantOf(type: TypeNode | undefined): string | number | boolean | undefined {
  const inner = type !== undefined && ts.isTypeReferenceNode(type) ? type.typeArguments?.[0] : undefined
  return inner !== undefined && ts.isLiteralTypeNode(inner) ? literalOf(inner) : undefined
}

function pathOf(type: TypeNode): string[] {
  if (!ts.isTypeReferenceNode(type)) return []
  const walk = (name: ts.EntityName): string[] =>
    ts.isIdentifier(name) ? [name.text] : [...walk(name.left), name.right.text]
  return walk(type.typeName)
}

/** Accepts a value that is unknown during planning: it can be neither valid nor invalid. */
function orNotKnown(schema: JsonSchema): JsonSchema {
  return Object.keys(schema).length === 0 ? schema : { if: { $ref: '#/$defs/notKnown' }, else: schema }
}
