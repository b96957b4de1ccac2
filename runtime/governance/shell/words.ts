import type { ShellNode } from './grammar.ts'
import { decodeAnsiC, expandBraces, unescapeDoubleQuoted, unescapeWord } from './unquote.ts'

/** Stands in a word's text where only the shell will know what comes there. */
export const UNKNOWN = '\uFFFC'
/** Stands where the shell splits a word after expanding it. */
const SPLIT = '\u0001'

/** One word of a command as it reaches the program, as far as the text alone tells. */
export interface Word {
  readonly text: string
  /** A part of it is unknown before it runs. */
  readonly isUnknown: boolean
  /** It is wholly the output of a command, unquoted: it could be any flags. */
  readonly isAnyWords: boolean
  /** It is `<(…)`: a file that holds a command's output. */
  readonly isSubstitution: boolean
}

/** Values that a variable can have by this script's own assignments; undefined where they are not all known. */
export type Variables = Map<string, readonly string[] | undefined>

export const newVariables = (): Variables =>
  new Map([
    ['HOME', ['~']],
    ['PWD', ['.']],
    ['IFS', [SPLIT]],
  ])

/** A text and what is known of its variables. */
export type Scope = { readonly source: string; readonly variables: Variables }

/** The words that one node of a command becomes: none, one, or several by braces and splitting. */
export function wordsOf(node: ShellNode, scope: Scope): Word[] {
  if (node.type === 'process_substitution') {
    return [{ text: UNKNOWN, isUnknown: true, isAnyWords: false, isSubstitution: true }]
  }
  const whole = wholeVariable(node, scope)
  const texts = whole ?? bracesOf(node, scope, textOf(node, scope))
  const isAnyWords = node.type === 'command_substitution'
  return texts
    .flatMap((text) => text.split(SPLIT).filter((piece, _i, all) => piece !== '' || all.length === 1))
    .map((text) => ({ text, isUnknown: text.includes(UNKNOWN), isAnyWords, isSubstitution: false }))
}

/** The text of a node where one word is meant: in quotes, after `=`, as a redirection's target. */
export const textOf = (node: ShellNode, scope: Scope): string => piece(node, scope, false)

const isQuoted = /["'\\]/

function bracesOf(node: ShellNode, scope: Scope, text: string): string[] {
  const raw = scope.source.slice(node.start, node.end)
  return raw.includes('{') && !isQuoted.test(raw) ? expandBraces(text) : [text]
}

/** An unquoted `$x` alone becomes every word of every value that the script gives it. */
function wholeVariable(node: ShellNode, scope: Scope): string[] | undefined {
  const name = variableName(node, scope)
  const values = name === undefined ? undefined : scope.variables.get(name)
  return values?.flatMap((value) => value.split(/\s+/))
}

function piece(node: ShellNode, scope: Scope, quoted: boolean): string {
  const raw = scope.source.slice(node.start, node.end)
  switch (node.type) {
    case 'raw_string':
      return raw.slice(1, -1)
    case 'ansi_c_string':
      return decodeAnsiC(raw.slice(2, -1))
    case 'string':
      return stringText(node, scope)
    case 'simple_expansion':
    case 'expansion':
      return variableText(node, scope, quoted)
    case 'command_substitution':
    case 'arithmetic_expansion':
    case 'process_substitution':
      return UNKNOWN
    case 'concatenation':
    case 'command_name':
    case 'translated_string':
      return node.children.map((child) => (child.type === '$' ? '' : piece(child, scope, quoted))).join('')
    default:
      return unescapeWord(raw)
  }
}

/** The grammar leaves out blanks and line feeds between the parts of a string, so the gaps are read too. */
function stringText(node: ShellNode, scope: Scope): string {
  let text = ''
  let at = node.start + 1
  for (const child of node.children) {
    if (!/expansion|substitution/.test(child.type)) continue
    text += unescapeDoubleQuoted(scope.source.slice(at, child.start)) + piece(child, scope, true)
    at = child.end
  }
  return text + unescapeDoubleQuoted(scope.source.slice(at, node.end - 1))
}

function variableName(node: ShellNode, scope: Scope): string | undefined {
  if (node.type === 'command_name' && node.children.length === 1) {
    const [only] = node.children
    return only && variableName(only, scope)
  }
  if (node.type !== 'simple_expansion' && node.type !== 'expansion') return undefined
  const names = node.children.filter((child) => child.type === 'variable_name')
  const plain = node.type === 'simple_expansion' ? 2 : 3
  const [name] = names
  return names.length === 1 && node.children.length === plain && name
    ? scope.source.slice(name.start, name.end)
    : undefined
}

function variableText(node: ShellNode, scope: Scope, quoted: boolean): string {
  const name = variableName(node, scope)
  const values = name === undefined ? undefined : scope.variables.get(name)
  const [value] = values ?? []
  if (value === undefined || values?.length !== 1) return UNKNOWN
  return quoted ? value : value.replace(/\s+/g, SPLIT)
}
