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

/** One word of a command as it reaches the program, as far as the text alone tells. */
export interface Word {
  readonly text: string
  /** A part of it is not in the text of the script. */
  readonly isUnknown: boolean
  /** It is `<(…)`: a file that holds a command's output. */
  readonly isSubstitution: boolean
  /** It has a wildcard that the shell expands. */
  readonly isPattern: boolean
}

/** Values that a word, or a variable, can have. More than this many count as unknown. */
const MAX_ALTERNATIVES = 16

export const wordOf = (text: string): Word => ({
  text,
  isUnknown: HAS_MARK.test(text),
  isSubstitution: false,
  isPattern: false,
})

const HAS_MARK = new RegExp(`[${UNKNOWN}${WORDS}${OUTSIDE}]`)

/** The words that one node of a command becomes, in each way that it can be expanded. */
export function wordsOf(node: ShellNode, scope: Scope): Word[][] {
  const raw = scope.source.slice(node.start, node.end)
  const isSubstitution = node.type === 'process_substitution'
  return expand(node, scope, false).map((text) =>
    expandBraces(text)
      .flatMap((word) => splitWord(word, raw))
      .map((piece) => ({ ...wordOf(unprotect(piece)), isSubstitution, isPattern: hasWildcard(piece) })),
  )
}

/** An expansion outside quotes that comes to nothing is no word at all; `''` is one. */
function splitWord(text: string, raw: string): string[] {
  if (text !== '') return text.split(SPLIT).filter((piece) => piece !== '')
  return /["']/.test(raw) && !LISTS_ONLY.test(raw) ? [''] : []
}

const LISTS_ONLY = /^"\$(?:@|\{@\}|\{\w+\[@\]\})"$/

/** The texts of a node where one word is meant: after `=`, as a redirection's target. */
export const textsOf = (node: ShellNode, scope: Scope): string[] =>
  expand(node, scope, true).map((text) => unprotect(text))

/** Each text that the shell can make of a node. `isWhole` is set where it does not split what it expands. */
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

/** Each text of the one followed by each of the other. */
function join(before: readonly string[], after: readonly string[]): string[] {
  if (before.length * after.length <= MAX_ALTERNATIVES)
    return before.flatMap((left) => after.map((right) => left + right))
  const oneOf = (texts: readonly string[]) => (texts.length === 1 ? (texts[0] as string) : UNKNOWN)
  return [oneOf(before) + oneOf(after)]
}

/** The grammar leaves out blanks and line feeds between the parts of a string, so the gaps are read too. */
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

/** The elements of `(…)`, as words; an element's `[key]=` is left out. */
function expandArray(node: ShellNode, scope: Scope): string {
  return node.children
    .filter(({ type }) => !/^[()]$|^comment$/.test(type))
    .flatMap((child) => wordsOf(child, scope).flat())
    .map(({ text }) => text.replace(/^\[[^\]]*\]=/, ''))
    .join(SPLIT)
}
