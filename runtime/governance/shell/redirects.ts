import type { ShellNode } from './grammar.ts'
import { unescapeDocument } from './unquote.ts'
import type { Scope } from './variables.ts'
import { textsOf } from './words.ts'

/** The redirections of a command. */
export interface Redirects {
  readonly outputs: readonly string[]
  readonly inputs: readonly string[]
  /** Whether it reads the output of a `<(…)`. */
  readonly readsSubstitution: boolean
  /** Text of here-documents and here-strings on its standard input. */
  readonly documents: readonly string[]
}

export const NO_REDIRECTS: Redirects = { outputs: [], inputs: [], readsSubstitution: false, documents: [] }

/** Adds the redirections of a statement to the redirections of the enclosing statement. */
export function redirectsOf(nodes: readonly ShellNode[], outer: Redirects, scope: Scope): Redirects {
  const own = nodes.filter((node) => node.type.endsWith('_redirect'))
  if (own.length === 0) return outer
  const files = own.filter((node) => node.type === 'file_redirect')
  return {
    outputs: [...outer.outputs, ...targetsOf(files, '>', scope)],
    inputs: [...outer.inputs, ...targetsOf(files, '<', scope)],
    readsSubstitution: outer.readsSubstitution || files.some(hasSubstitution),
    documents: [...outer.documents, ...own.flatMap((node) => documentsOf(node, scope))],
  }
}

const hasSubstitution = (node: ShellNode) => node.children.some(({ type }) => type === 'process_substitution')

/** The operator of a redirection, such as `>` or `&>`. */
const isOperator = ({ type }: ShellNode) => /^[<>&|]{1,3}-?$/.test(type)

/** The nodes after the operator of a redirection: its target, then words that belong to the command. */
const behindOperator = ({ children }: ShellNode): readonly ShellNode[] =>
  children.slice(children.findIndex(isOperator) + 1)

const targetsOf = (files: readonly ShellNode[], direction: '>' | '<', scope: Scope): string[] =>
  files
    .filter((node) => node.children.some((child) => isOperator(child) && child.type.includes(direction)))
    .flatMap((node) => behindOperator(node).slice(0, 1))
    .flatMap((target) => textsOf(target, scope))

/**
 * Returns words of the command that the grammar puts into a redirection: `rm >log -rf x`, `dd
 * of=/dev/sda1>log`.
 */
export function wordsIn(redirect: ShellNode, source: string): readonly ShellNode[] {
  if (redirect.type === 'file_redirect') {
    const descriptors = redirect.children.filter(({ type }) => type === 'file_descriptor')
    const noDescriptors = descriptors.filter(({ start, end }) => !DESCRIPTOR.test(source.slice(start, end)))
    return [...noDescriptors, ...behindOperator(redirect).slice(1)]
  }
  if (redirect.type !== 'heredoc_redirect') return []
  return redirect.children.filter(({ type }) => IS_WORD.test(type))
}

const DESCRIPTOR = /^(?:\d+|\{\w+\})$/

const IS_WORD =
  /^(?:word|number|string|raw_string|ansi_c_string|translated_string|concatenation|expansion|simple_expansion|command_substitution|process_substitution|brace_expression|arithmetic_expansion|extglob_pattern)$/

function documentsOf(node: ShellNode, scope: Scope): string[] {
  if (node.type === 'herestring_redirect') {
    return node.children.slice(-1).flatMap((text) => textsOf(text, scope))
  }
  if (node.type !== 'heredoc_redirect') return []
  const text = documentOf(node, scope.source)
  return [isExpandedDocument(node, scope.source) ? unescapeDocument(text) : text]
}

/**
 * The text of a here-document, from the line after the redirection to the delimiter. Read from the source,
 * because the grammar's own node is empty for some texts.
 */
export function documentOf(node: ShellNode, source: string): string {
  const mark = node.children.find(({ type }) => type === 'heredoc_start')
  const end = node.children.find(({ type }) => type === 'heredoc_end')
  const line = source.indexOf('\n', mark?.end ?? node.start)
  return line < 0 ? '' : source.slice(line + 1, end?.start ?? node.end)
}

/** A here-document is expanded unless a part of its delimiter is quoted. */
export function isExpandedDocument(node: ShellNode, source: string): boolean {
  const mark = node.children.find(({ type }) => type === 'heredoc_start')
  return mark !== undefined && !/["'\\]/.test(source.slice(mark.start, mark.end))
}
