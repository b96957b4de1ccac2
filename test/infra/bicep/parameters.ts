import { evaluate, type Names } from './expressions.ts'
import type { BicepFile, Declaration } from './file.ts'
import { partOf } from './syntax.ts'
import { type Fields, isFields, knownAtStart, type Value } from './values.ts'

const TYPES: Readonly<Record<string, (value: Value) => boolean>> = {
  array: Array.isArray,
  bool: (value) => typeof value === 'boolean',
  int: Number.isInteger,
  object: isFields,
  string: (value) => typeof value === 'string',
  'string[]': (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
}

function lengthProblem({ decorators }: Declaration, value: Value): string | undefined {
  const length = typeof value === 'string' || Array.isArray(value) ? value.length : 0
  const [min, max] = ['minLength', 'maxLength'].map((name) => decorators.get(name)?.text)
  if (min !== undefined && length < Number(min)) return `is shorter than ${min}`
  return max !== undefined && length > Number(max) ? `is longer than ${max}` : undefined
}

function checked(declaration: Declaration, value: Value): Value {
  const { name, node } = declaration
  const type = partOf(node, 'type')?.text ?? ''
  const isOfType = TYPES[type]
  if (!isOfType) throw new Error(`unknown type ${type}`)
  const problem = isOfType(knownAtStart(value, name))
    ? lengthProblem(declaration, value)
    : `is not of type ${type}`
  if (problem !== undefined) throw new Error(`parameter ${name} ${problem}`)
  return value
}

/** The parameters of a file with their defaults, checked against types and lengths. Unknown and missing ones throw. */
export function parametersOf(file: BicepFile, given: Fields, names: Names): Map<string, Value> {
  const declared = [...file.declarations.values()].filter(({ kind }) => kind === 'parameter')
  const unknown = Object.keys(given).filter((name) => !declared.some((one) => one.name === name))
  if (unknown.length > 0) throw new Error(`${file.path} has no parameter ${unknown.join(', ')}`)
  return new Map(
    declared.map((one) => {
      const hasDefault = one.body.type !== 'type'
      const value = given[one.name] ?? (hasDefault ? evaluate(one.body, names) : undefined)
      if (value === undefined) throw new Error(`${file.path} needs the parameter ${one.name}`)
      return [one.name, checked(one, value)]
    }),
  )
}
