import { type Document, isAlias, isMap, isScalar, isSeq, parseDocument, type Scalar } from 'yaml'
import type { ConfigProblem } from './config-sections.ts'

/** The section `config` of a stack file, and every value that YAML parsers read differently. */
export interface StackText {
  readonly config: Readonly<Record<string, unknown>>
  readonly problems: readonly ConfigProblem[]
}

/** Namespace of our keys. Messages omit it. */
const OWN = /^agentweaver:/

/**
 * Reads the text of a stack file. Three parsers read it: this one (YAML 1.2), Pulumi's (Go, between 1.1 and 1.2) and
 * the tools of its maintainers. `012` is 12 to the first and 10 to the second, so a plan would differ from the result
 * of `up`. Throws for text that is not YAML, or that has a key twice.
 */
export function readStackText(text: string): StackText {
  const document = parseDocument(text)
  const [error] = document.errors
  if (error) throw new SyntaxError(error.message.split('\n')[0] ?? 'is not YAML')
  if (document.directives?.yaml.explicit === true)
    throw new SyntaxError('begins with a %YAML line, which Pulumi does not read: remove it')
  const content: unknown = document.toJS({ maxAliasCount: 20 })
  const config = isRecord(content) ? (content['config'] ?? {}) : undefined
  if (!isRecord(config)) throw new SyntaxError('has no mapping under "config"')
  const node = document.get('config', true)
  return { config, problems: isMap(node) ? ambiguous(node, []) : [] }
}

/**
 * Quotes all strings of a document. Keys stay unquoted, because no YAML parser reads one of our keys as another type.
 */
export function quoted(document: Document): Document {
  const quote = (node: unknown): void => {
    if (isMap(node)) for (const pair of node.items) quote(pair.value)
    else if (isSeq(node)) node.items.forEach(quote)
    else if (isScalar(node) && typeof node.value === 'string') node.type = 'QUOTE_DOUBLE'
  }
  quote(document.contents)
  return document
}

/** Long strings are not folded, because some parsers would read the line break as part of the string. */
export const STYLE = { lineWidth: 0 } as const

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function ambiguous(node: unknown, path: readonly string[]): ConfigProblem[] {
  const at = path.join('.').replace(OWN, '')
  if (isAlias(node)) return [{ path: at, message: 'is an alias: write the value itself' }]
  if (isMap(node))
    return node.items.flatMap(({ key, value }) => {
      const below = [...path, isScalar(key) ? (key.source ?? String(key.value)) : 'a key']
      return [...scalarProblems(key, below.join('.').replace(OWN, '')), ...ambiguous(value, below)]
    })
  if (isSeq(node)) return node.items.flatMap((item, index) => ambiguous(item, [...path, String(index)]))
  return scalarProblems(node, at)
}

function scalarProblems(node: unknown, path: string): ConfigProblem[] {
  const scalar = isScalar(node) ? node : undefined
  if (scalar?.anchor !== undefined) return [{ path, message: `has the anchor &${scalar.anchor}: remove it` }]
  if (scalar?.tag !== undefined) return [{ path, message: `has the tag ${scalar.tag}: remove it` }]
  const message = scalar === undefined ? OTHER.nothing('') : ambiguityOf(scalar)
  return message === undefined ? [] : [{ path, message }]
}

const OTHER = {
  nothing: (text: string) =>
    `is ${text === '' ? 'empty' : text}, which means no value: remove the key, or write "${text}" in quotes`,
  boolean: (text: string) =>
    `is ${text}, a boolean to some YAML readers and text to others: write true or false, or "${text}" in quotes`,
  date: (text: string) =>
    `is ${text}, a time to some YAML readers and text to others: write it in quotes, such as "${text.slice(0, 10)}"`,
  number: (text: string) =>
    `is ${text}, which YAML readers parse as different numbers or as text: write a number in plain digits, or "${text}" in quotes`,
  merge: (text: string) => `is ${text}, which some YAML readers merge or replace: write "${text}" in quotes`,
}

/** Text that YAML 1.1, YAML 1.2 or Go's reader takes for something else than a string. */
const READINGS: readonly (readonly [RegExp, (text: string) => string])[] = [
  [/^(?:~|null)?$/i, OTHER.nothing],
  [/^(?:y|yes|n|no|on|off|true|false)$/i, OTHER.boolean],
  [/^\d{4}-\d{1,2}-\d{1,2}(?:[Tt\s].*)?$/, OTHER.date],
  [/^(?:<<|=)$/, OTHER.merge],
  [/^[-+]?0[xob][\da-f]+$/i, OTHER.number],
  [/^[-+]?\d+(?::[0-5]?\d)+(?:\.\d*)?$/, OTHER.number],
  [/^[-+]?[\d.]*\d[\d.]*(?:e[-+]?\d+)?$/i, OTHER.number],
  [/^[-+]?\.(?:inf|nan)$/i, OTHER.number],
]

/** Scalars that every parser reads in the same way: a boolean, or a number that JavaScript represents exactly. */
const ALIKE = /^(?:true|false|0|-?[1-9]\d{0,14}|-?(?:0|[1-9]\d{0,9})\.\d{1,5})$/

function ambiguityOf({ type, source = '' }: Scalar): string | undefined {
  if (type !== 'PLAIN' || ALIKE.test(source)) return undefined
  // Go's parser removes every underscore before it parses a number.
  const spellings = /\d/.test(source) ? [source, source.replaceAll('_', '')] : [source]
  return READINGS.find(([pattern]) => spellings.some((text) => pattern.test(text)))?.[1](source)
}
