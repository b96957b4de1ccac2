import type { ShellNode } from './grammar.ts'
import { documentOf, isExpandedDocument } from './redirects.ts'
import { backquotedScripts, unescapeBackquoted } from './unquote.ts'

/** Leaves in which a backquote is literal, or that are judged together with their parent. */
const LITERAL = /^(?:raw_string|ansi_c_string|comment|heredoc_\w+|`|string_content)$/
const END_MARK = 'END_OF_DOCUMENT'

/**
 * Returns scripts that the node holds as text although a shell would run them. Undefined if the text cannot be
 * parsed.
 */
export function scriptsInText(node: ShellNode, source: string): string[] | undefined {
  const text = source.slice(node.start, node.end)
  if (node.type === 'command_substitution')
    return text.startsWith('`') && text.includes('\\') ? [unescapeBackquoted(text.slice(1, -1))] : []
  if (node.type === 'heredoc_redirect') return inDocument(node, source)
  const isText = node.children.length === 0 && !LITERAL.test(node.type) && text.includes('`')
  return isText ? backquotedScripts(text) : []
}

/** The grammar does not parse backquotes in a here-document, nor substitutions in an indented one. */
function inDocument(node: ShellNode, source: string): string[] | undefined {
  if (!isExpandedDocument(node, source)) return []
  const text = documentOf(node, source)
  const scripts = backquotedScripts(text)
  if (!scripts || !hasUnreadSubstitution(node, source)) return scripts
  const unindented = text.replace(/^[ \t]+/gm, '')
  return unindented === text ? undefined : [...scripts, `cat <<${END_MARK}\n${unindented}\n${END_MARK}`]
}

/** Whether the here-document contains a `$(` that the grammar did not parse. */
function hasUnreadSubstitution(node: ShellNode, source: string): boolean {
  const body = node.children.find(({ type }) => type === 'heredoc_body')
  const parts = body?.children.filter(({ type }) => type !== 'heredoc_content') ?? []
  let rest = documentOf(node, source)
  for (const { start, end } of parts) rest = rest.replace(source.slice(start, end), ' ')
  return /(?:^|[^\\])(?:\\\\)*\$[({]/.test(rest)
}
