import type { z } from 'zod'

type Issue = Parameters<z.core.$ZodErrorMap>[0]

/**
 * Readable messages for zod issues: zod's defaults mention types, patterns and NaN. A schema's own message takes precedence;
 * `undefined` keeps zod's default. Each process sets this with `z.config` in its entry point.
 */
export function issueMessage(issue: Issue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : typeWords(issue.expected)
    case 'too_small':
      return sizeWords(issue.origin, boundOf(issue, ['at least', 'more than']), Number(issue.minimum))
    case 'too_big':
      return sizeWords(issue.origin, boundOf(issue, ['at most', 'less than']), Number(issue.maximum))
    case 'invalid_value':
      return choiceWords(issue.values)
    case 'invalid_union':
      return Array.isArray(issue['options']) ? choiceWords(issue['options']) : undefined
    case 'invalid_key':
      return `is not a name that is allowed: ${issue.issues.map(({ message }) => message).join(', ')}`
    case 'invalid_format':
      return issue.format === 'regex' ? `must match ${issue.pattern}` : undefined
    default:
      return undefined
  }
}

const boundOf = ({ inclusive }: { inclusive?: boolean }, [including, excluding]: [string, string]): string =>
  inclusive ? including : excluding

const TYPES: Readonly<Record<string, string>> = {
  number: 'a number',
  int: 'a whole number',
  string: 'a text',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
}

const typeWords = (expected: string): string | undefined =>
  TYPES[expected] === undefined ? undefined : `must be ${TYPES[expected]}`

function sizeWords(origin: string, bound: string, size: number): string | undefined {
  if (origin === 'string' && bound === 'at least' && size === 1) return 'must not be empty'
  const amount = size.toLocaleString('en', { maximumFractionDigits: 6 })
  if (origin === 'string') return `must have ${bound} ${amount} characters`
  if (origin === 'array') return `must have ${bound} ${amount} entries`
  return origin === 'number' || origin === 'int' ? `must be ${bound} ${amount}` : undefined
}

const choiceWords = (values: readonly unknown[]): string =>
  values.length === 1 ? `must be ${values[0]}` : `must be one of ${values.join(', ')}`
