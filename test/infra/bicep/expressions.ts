import { v5 } from 'uuid'
import { lineOf, type Node, partOf, partsOf } from './syntax.ts'
import {
  arrayOf,
  booleanOf,
  type Fields,
  Group,
  isFields,
  knownAtStart,
  Late,
  memberOf,
  stringOf,
  type Value,
} from './values.ts'

/** Where a file is deployed. Without a group it is a deployment to the subscription. */
export interface Place {
  readonly subscriptionId: string
  readonly group?: Group
}

/** What an expression can refer to. */
export interface Names {
  readonly place: Place
  lookUp(name: string): Value
}

export const groupOf = ({ subscriptionId }: Place, name: string) =>
  new Group(`/subscriptions/${subscriptionId}/resourceGroups/${name}`, name)

/** The namespace that `guid()` of ARM templates uses. */
const GUIDS = '11fb06fb-712d-4ddd-98c7-e71bbd588830'
const texts = (args: readonly Value[]) => args.map((arg) => stringOf(arg, 'an argument'))

const FUNCTIONS: Readonly<Record<string, (args: readonly Value[], place: Place) => Value>> = {
  concat: (args) => args.flatMap((arg) => arrayOf(arg, 'an argument of concat')),
  empty: ([arg = null]) => {
    const known = knownAtStart(arg, 'the argument of empty')
    if (known === null || known === '') return true
    return Array.isArray(known) ? known.length === 0 : isFields(known) && Object.keys(known).length === 0
  },
  environment: () => ({ suffixes: { keyvaultDns: '.vault.azure.net' } }),
  guid: (args) => v5(texts(args).join('-'), GUIDS),
  join: ([list = null, separator = null]) =>
    texts(arrayOf(list, 'the list of join')).join(stringOf(separator, 'the separator')),
  replace: (args) => {
    const [text = '', from = '', to = ''] = texts(args)
    if (!text.includes(from)) throw new Error(`nothing to replace: ${from}`)
    return text.replaceAll(from, to)
  },
  resourceGroup: ([name], place) => {
    if (name !== undefined) return groupOf(place, stringOf(name, 'the name of a resource group'))
    if (place.group === undefined) throw new Error('a deployment to a subscription has no resource group')
    return place.group
  },
  subscription: (_, { subscriptionId }) => ({ id: `/subscriptions/${subscriptionId}`, subscriptionId }),
  subscriptionResourceId: (args, { subscriptionId }) => {
    const [type = '', name = ''] = texts(args)
    return `/subscriptions/${subscriptionId}/providers/${type}/${name}`
  },
  take: ([text = null, count]) => stringOf(text, 'the text of take').slice(0, Number(count)),
}

const child = (node: Node, field: string): Node => {
  const found = node.childForFieldName(field)
  if (found === null) throw new Error(`no ${field}`)
  return found
}

const EQUALS: Readonly<Record<string, (a: Value, b: Value) => boolean>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
}

type Evaluator = (node: Node, names: Names) => Value
const EVALUATORS: Readonly<Record<string, Evaluator>> = {
  array: (node, names) => partsOf(node).map((part) => evaluate(part, names)),
  binary_expression: (node, names) => {
    const operator = child(node, 'operator').type
    const equals = EQUALS[operator]
    if (!equals) throw new Error(`unknown operator ${operator}`)
    const side = (field: string) => knownAtStart(evaluate(child(node, field), names), 'a compared value')
    return equals(side('left'), side('right'))
  },
  boolean: ({ text }) => text === 'true',
  call_expression: (node, names) => {
    const name = child(node, 'function').text
    const called = FUNCTIONS[name]
    if (!called) throw new Error(`unknown function ${name}`)
    return called(
      partsOf(child(node, 'arguments')).map((part) => evaluate(part, names)),
      names.place,
    )
  },
  identifier: ({ text }, names) => names.lookUp(text),
  member_expression: (node, names) => {
    if (node.children.some(({ type }) => type === '.?' || type === '!')) throw new Error('unknown operator')
    return memberOf(evaluate(child(node, 'object'), names), child(node, 'property').text)
  },
  null: () => null,
  number: ({ text }) => Number(text),
  object: (node, names) => evaluateObject(node, names),
  parenthesized_expression: (node, names) => {
    const [inner, ...more] = partsOf(node)
    if (inner === undefined || more.length > 0) throw new Error('unknown parentheses')
    return evaluate(inner, names)
  },
  string: (node, names) => evaluateString(node, names),
  subscript_expression: (node, names) => {
    const index = knownAtStart(evaluate(child(node, 'index'), names), 'an index')
    if (typeof index !== 'number') throw new Error('unknown index')
    return memberOf(evaluate(child(node, 'object'), names), index)
  },
  ternary_expression: (node, names) => {
    const isSo = booleanOf(evaluate(child(node, 'condition'), names), 'a condition')
    return evaluate(child(node, isSo ? 'consequence' : 'alternative'), names)
  },
  unary_expression: (node, names) => {
    if (child(node, 'operator').type !== '!') throw new Error('unknown operator')
    return !booleanOf(evaluate(child(node, 'argument'), names), 'an operand')
  },
}

/**
 * The value of an expression. It knows only what the files in `infra/state` use; everything else throws. A `for` inside
 * an expression is not known either: Bicep accepts it in few places.
 */
export function evaluate(node: Node, names: Names): Value {
  const evaluator = EVALUATORS[node.type]
  try {
    if (!evaluator) throw new Error(`unknown syntax ${node.type}`)
    return evaluator(node, names)
  } catch (error) {
    if (error instanceof BicepError) throw error
    throw new BicepError(`${lineOf(node)}: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    })
  }
}
class BicepError extends Error {}

/** The properties of an object literal, by name. */
export function propertiesOf(node: Node): Map<string, Node> {
  const properties = partsOf(node).map((property): [string, Node] => {
    const [key, value, ...more] = partsOf(property)
    const isKnown = property.type === 'object_property' && key?.type === 'identifier' && more.length === 0
    if (!isKnown || value === undefined) throw new Error(`unknown property: ${property.text}`)
    return [key.text, value]
  })
  const found = new Map(properties)
  if (found.size !== properties.length) throw new Error('a property is written twice')
  return found
}

const evaluateObject = (node: Node, names: Names): Fields =>
  Object.fromEntries([...propertiesOf(node)].map(([key, value]) => [key, evaluate(value, names)]))

const ESCAPES: Readonly<Record<string, string>> = { "\\'": "'", '\\\\': '\\', '\\n': '\n' }

function partOfString(part: Node, names: Names): Value {
  if (part.type === 'string_content') return part.text
  if (part.type === 'interpolation') {
    const [inner] = partsOf(part)
    if (inner === undefined) throw new Error('an empty interpolation')
    return evaluate(inner, names)
  }
  const escaped = part.type === 'escape_sequence' ? ESCAPES[part.text] : undefined
  if (escaped === undefined) throw new Error(`unknown part of a string: ${part.type}`)
  return escaped
}

/** The grammar counts the blanks before `${` and before the closing quote as parts of these tokens. */
const blanksBefore = ({ type, text }: Node) =>
  type === 'string_content' ? '' : (/^\s*/.exec(text)?.[0] ?? '')

function evaluateString(node: Node, names: Names): Value {
  if (node.text.startsWith("'''")) return (partOf(node, 'string_content')?.text ?? '').replace(/^\r?\n/, '')
  const [open, ...parts] = node.children
  const close = parts.pop()
  if (open === undefined || close === undefined) throw new Error('unknown string')
  const values = parts.map((part) => partOfString(part, names))
  const texts = values.map((value) => (value instanceof Late ? value.value : value))
  if (!texts.every((text) => typeof text === 'string')) throw new Error('only strings are interpolated')
  const covered = [open, ...parts, close].map(({ text }) => text).join('')
  if (covered !== node.text) throw new Error('the grammar dropped a part of a string')
  const text =
    parts.map((part, index) => `${blanksBefore(part)}${texts[index]}`).join('') + blanksBefore(close)
  return values.some((value) => value instanceof Late) ? new Late(text) : text
}
