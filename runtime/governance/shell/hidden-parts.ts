import type { ShellNode } from './grammar.ts'

/** What the grammar leaves out between the parts of a statement: blanks, line feeds, joined lines, a lone dash. */
const BLANK = /^(?:[ \t\n]|\\\n|-(?=\s))*$/
/** The same inside a simple command, which ends with its line. */
const BLANK_IN_LINE = /^(?:[ \t]|\\\n|-(?=\s))*$/
/** Between the parts of one word: with a blank there they would be another thing to a shell. */
const JOINED = /^(?:\\\n)*$/
const ONE_WORD = /^(?:simple_expansion|concatenation|variable_assignment|subscript|translated_string)$/
/** Nodes whose text is not wholly that of their children. */
const HAS_TEXT = /^(?:string|heredoc_\w+|regex|expansion|arithmetic_expansion|word|extglob_pattern)$/
/** Words that a shell does not take for the name of a command. */
const RESERVED = /^(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|in|select|function|\{|\})$/
/** Leaves that hold text which the shell expands no further, or that are judged with what is around them. */
const TEXT_LEAF = /^(?:raw_string|ansi_c_string|comment|heredoc_\w+|string_content)$/
const OPERATOR = /^[^\w\n]+$/
/** The start of `$(…)`, `<(…)` or `>(…)`, not escaped, with anything behind it: a line feed too. */
const SUBSTITUTION = /(?<!\\)(?:\\\\)*(?:\$\([\s\S]|[<>]\()/

/** What bash expands once more, also what was in quotes: it runs `echo >&'$(rm -rf x)'`. */
const EXPANDED_TWICE: readonly (readonly [string, RegExp])[] = [
  ['subscript', /['"\\][\s\S]*(?:`|\$\()/],
  ['file_redirect', /^\d*[<>]&[\s\S]*(?:`|\$\()/],
]

/**
 * Whether the grammar has read a node in a way in which no shell reads it. What a shell would run may then be missing
 * in the tree. Each of these was found by comparing both on random texts.
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
  // An operator that has swallowed a word: `rm x -r<<END`.
  if (OPERATOR.test(type)) return text.trim() !== type && text !== '$$'
  if (type === 'word' && /(?:^|[^\\])\n/.test(text)) return true
  return SUBSTITUTION.test(text)
}

/** `#` begins a comment only at the beginning of a word. */
const isNoComment = ({ type, start }: ShellNode, source: string): boolean =>
  type === 'comment' &&
  !/(?:^|[^\\][ \t]|^[ \t]|[\n;&|()<>`])$/.test(source.slice(Math.max(start - 2, 0), start))

/** A here-document ends with a line that holds its mark and nothing else. */
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

/** Words that the grammar takes for two; those of a command are joined where they are read. */
const neverTouch = (parent: string, child: ShellNode): boolean =>
  /^(?:for_statement|array)$/.test(parent) || (parent === 'command' && child.type === 'variable_assignment')

const isWord = ({ type }: ShellNode): boolean => !OPERATOR.test(type) && !type.endsWith('_redirect')
