import type { ShellNode } from './grammar.ts'
import { OUTSIDE, SPLIT, UNKNOWN, WORDS } from './marks.ts'
import {
  decodeAnsiC,
  expandBraces,
  hasWildcard,
  protect,
  unescapeDoubleQuoted,
  unescapeWord,
  unprotect,
} from './unquote.ts'
import { expandVariable, type Scope } from './variables.ts'

/** One word of a command as the program receives it, as far as the text shows. */
export interface Word {
  readonly text: string
  /** Whether a part of it is not in the text of the script. */
  readonly isUnknown: boolean
  /** Whether it is `<(…)`, a file with the output of a command. */
  readonly isSubstitution: boolean
  /** Whether it has an active wildcard. */
  readonly isPattern: boolean
}

/** Maximum number of values per word. Above it, the word counts as unknown. */
const MAX_ALTERNATIVES = 16

export const wordOf = (text: string): Word => ({
  text,
  isUnknown: HAS_MARK.test(text),
  isSubstitution: false,
  isPattern: false,
})

const HAS_MARK = new RegExp(`[${UNKNOWN}${WORDS}${OUTSIDE}]`)

/** Returns the words that a node expands to, once per possible expansion. */
export function wordsOf(node: ShellNode, scope: Scope): Word[][] {
  const raw = scope.source.slice(node.start, node.end)
  const isSubstitution = node.type === 'process_substitution'
  return expand(node, scope, false).map((text) =>
    expandBraces(text)
      .flatMap((word) => splitWord(word, raw))
      .map((piece) => ({ ...wordOf(unprotect(piece)), isSubstitution, isPattern: hasWildcard(piece) })),
  )
}

/** An unquoted expansion to an empty text is not a word. `''` is an empty word. */
function splitWord(text: string, raw: string): string[] {
  if (text !== '') return text.split(SPLIT).filter((piece) => piece !== '')
  return /["']/.test(raw) && !LISTS_ONLY.test(raw) ? [''] : []
}

const LISTS_ONLY = /^"\$(?:@|\{@\}|\{\w+\[@\]\})"$/

/** The possible texts of a node that is not split into words, such as a value after `=` or a redirection target. */
export const textsOf = (node: ShellNode, scope: Scope): string[] =>
  expand(node, scope, true).map((text) => unprotect(text))

/** Returns the possible texts of a node. `isWhole` is set if the shell does not split the result into words. */
export function expand(node: ShellNode, scope: Scope, isWhole: boolean): string[] {
  const raw = scope.source.slice(node.start, node.end)
  switch (node.type) {
    case 'raw_string':
      return [protect(raw.slice(1, -1))]
    case 'ansi_c_string':
      return [protect(decodeAnsiC(raw.slice(2, -1)))]
    case 'string':
      return expandString(node, scope)
    case 'simple_expansion':
    case 'expansion':
      return expandVariable(node, scope, isWhole)
    case 'command_substitution':
      if (scope.isPlain(node)) return [OUTSIDE]
      return [isWhole ? UNKNOWN : WORDS]
    case 'arithmetic_expansion':
    case 'process_substitution':
      return [OUTSIDE]
    case 'brace_expression':
      return [/^[{\d.\-}]+$/.test(raw) ? OUTSIDE : WORDS]
    // `$$`
    case '$':
      return [OUTSIDE]
    case '``':
      return ['']
    case 'array':
      return [expandArray(node, scope)]
    default:
      return expandParts(node, scope, isWhole)
  }
}

const COMPOUND = /^(?:concatenation|command_name|translated_string)$/

function expandParts(node: ShellNode, scope: Scope, isWhole: boolean): string[] {
  if (!COMPOUND.test(node.type)) return [unescapeWord(scope.source.slice(node.start, node.end))]
  return node.children
    .filter(({ type, start, end }) => type !== '$' || end - start > 1)
    .map((child) => expand(child, scope, isWhole))
    .reduce(join, [''])
}

/** Concatenates every text of `before` with every text of `after`. */
function join(before: readonly string[], after: readonly string[]): string[] {
  if (before.length * after.length <= MAX_ALTERNATIVES)
    return before.flatMap((left) => after.map((right) => left + right))
  const oneOf = (texts: readonly string[]) => (texts.length === 1 ? (texts[0] as string) : UNKNOWN)
  return [oneOf(before) + oneOf(after)]
}

/**
 * The grammar drops blanks and line feeds between the parts of a string, so the text between the children is
 * read from the source.
 */
function expandString(node: ShellNode, scope: Scope): string[] {
  const literal = (from: number, to: number) => [
    protect(unescapeDoubleQuoted(scope.source.slice(from, Math.max(from, to)))),
  ]
  let texts = ['']
  let at = node.start + 1
  for (const child of node.children) {
    if (!/expansion|substitution/.test(child.type)) continue
    texts = join(join(texts, literal(at, child.start)), expand(child, scope, true))
    at = child.end
  }
  return join(texts, literal(at, node.end - 1))
}

/** The elements of `(…)` as words, without their `[key]=`. */
function expandArray(node: ShellNode, scope: Scope): string {
  return node.children
    .filter(({ type }) => !/^[()]$|^comment$/.test(type))
    .flatMap((child) => wordsOf(child, scope).flat())
    .map(({ text }) => text.replace(/^\[[^\]]*\]=/, ''))
    .join(SPLIT)
}
