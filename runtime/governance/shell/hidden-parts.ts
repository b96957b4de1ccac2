import type { ShellNode } from './grammar.ts'

/**
 * Text that the grammar drops between the parts of a statement: blanks, line feeds, line continuations, a lone
 * dash.
 */
const BLANK = /^(?:[ \t\n]|\\\n|-(?=\s))*$/
/** The same inside a simple command, which ends at the end of its line. */
const BLANK_IN_LINE = /^(?:[ \t]|\\\n|-(?=\s))*$/
/** Allowed between the parts of one word. A shell would read a blank there as a word boundary. */
const JOINED = /^(?:\\\n)*$/
const ONE_WORD = /^(?:simple_expansion|concatenation|variable_assignment|subscript|translated_string)$/
/** Nodes with text outside their children. */
const HAS_TEXT = /^(?:string|heredoc_\w+|regex|expansion|arithmetic_expansion|word|extglob_pattern)$/
/** Words that a shell never reads as the name of a command. */
const RESERVED = /^(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|in|select|function|\{|\})$/
/** Leaves whose text the shell does not expand, or that are judged together with their parent. */
const TEXT_LEAF = /^(?:raw_string|ansi_c_string|comment|heredoc_\w+|string_content)$/
const OPERATOR = /^[^\w\n]+$/
/** The unescaped start of `$(…)`, `<(…)` or `>(…)`, followed by any character, line feeds included. */
const SUBSTITUTION = /(?<!\\)(?:\\\\)*(?:\$\([\s\S]|[<>]\()/

/** Text that bash expands a second time, quoted parts included: it runs `echo >&'$(rm -rf x)'`. */
const EXPANDED_TWICE: readonly (readonly [string, RegExp])[] = [
  ['subscript', /['"\\][\s\S]*(?:`|\$\()/],
  ['file_redirect', /^\d*[<>]&[\s\S]*(?:`|\$\()/],
]

/**
 * Returns whether the grammar read a node in a way that no shell does, so that commands may be missing from the
 * tree. Each check was found by comparing the grammar with bash on random scripts.
 */
export function isMisread(node: ShellNode, source: string): boolean {
  const text = source.slice(node.start, node.end)
  if (node.children.length === 0) return isMisreadLeaf(node.type, text) || isNoComment(node, source)
  if (node.type === 'command_name' && RESERVED.test(text)) return true
  if (EXPANDED_TWICE.some(([type, twice]) => node.type === type && twice.test(text))) return true
  if (node.type === 'heredoc_redirect' && endsTooEarly(node, source)) return true
  return !HAS_TEXT.test(node.type) && leavesOut(node, source)
}

function isMisreadLeaf(type: string, text: string): boolean {
  if (TEXT_LEAF.test(type)) return false
  // An operator that contains a word: `rm x -r<<END`.
  if (OPERATOR.test(type)) return text.trim() !== type && text !== '$$'
  if (type === 'word' && /(?:^|[^\\])\n/.test(text)) return true
  return SUBSTITUTION.test(text)
}

/** `#` starts a comment only at the start of a word. */
const isNoComment = ({ type, start }: ShellNode, source: string): boolean =>
  type === 'comment' &&
  !/(?:^|[^\\][ \t]|^[ \t]|[\n;&|()<>`])$/.test(source.slice(Math.max(start - 2, 0), start))

/** A here-document ends at a line that holds only its delimiter. */
function endsTooEarly({ children }: ShellNode, source: string): boolean {
  const mark = children.find(({ type }) => type === 'heredoc_start')
  const end = children.find(({ type }) => type === 'heredoc_end')
  if (!mark || !end) return false
  const written = source.slice(mark.start, mark.end).replace(/["'\\]/g, '')
  return source.slice(end.start, end.end).trim() !== written || !/^\n?$/.test(source.charAt(end.end))
}

function leavesOut({ type, children }: ShellNode, source: string): boolean {
  const blank = ONE_WORD.test(type) ? JOINED : type === 'command' ? BLANK_IN_LINE : BLANK
  return children.some((child, i) => {
    const next = children[i + 1]
    if (!next) return false
    const between = source.slice(child.end, next.start)
    return (
      !blank.test(between) || (between === '' && isWord(child) && isWord(next) && neverTouch(type, child))
    )
  })
}

/**
 * Adjacent words that the grammar splits and no later code joins. Adjacent words of a command are joined in
 * `commands.ts`.
 */
const neverTouch = (parent: string, child: ShellNode): boolean =>
  /^(?:for_statement|array)$/.test(parent) || (parent === 'command' && child.type === 'variable_assignment')

const isWord = ({ type }: ShellNode): boolean => !OPERATOR.test(type) && !type.endsWith('_redirect')
