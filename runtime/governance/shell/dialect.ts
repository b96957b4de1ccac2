import type { ShellNode } from './grammar.ts'

/** Nodes that only bash supports, or that other shells installed as `sh` read differently. */
const ONLY_BASH: Readonly<Record<string, string>> = {
  ansi_c_string: `$'…'`,
  translated_string: '$"…"',
  herestring_redirect: '<<<',
  process_substitution: '<(…)',
  array: 'arrays',
  subscript: 'arrays',
  brace_expression: '{a..b}',
  c_style_for_statement: 'for ((…))',
  '[[': '[[ … ]]',
  '((': '((…))',
  '&>': '&>',
  '&>>': '&>>',
  '|&': '|&',
  ';&': ';&',
  ';;&': ';;&',
  function: 'function',
  select: 'select',
  '+=': '+=',
  '$[': '$[…]',
}
/** Nodes that only some texts make differ between shells. */
const BY_TEXT: Readonly<Record<string, { readonly name: string; readonly test: (text: string) => boolean }>> =
  {
    extglob_pattern: { name: 'extended patterns', test: (text) => /^[?*+@!]\(/.test(text) },
    concatenation: { name: '{a,b}', test: (text) => /\{[^{}]*,/.test(text) },
    file_redirect: { name: '>&file', test: (text) => /^(?:\{\w+\}|\d*>&[^\d-])/.test(text) },
    command: { name: 'backslashes of echo', test: (text) => /^\W*echo\b[\s\S]*\\/.test(text) },
    command_name: { name: 'coproc, time, alias', test: (text) => /^(?:coproc|time|alias)$/.test(text) },
  }
/** Operators of `${x…}` that are not in POSIX. */
const ONLY_BASH_OPERATOR = /^(?:\/{1,2}|\/[#%]|\^{1,2}|,{1,2}|@|:|!)$/

/**
 * Names the constructs in a script that bash and other shells read differently. The names appear in approval
 * prompts.
 */
export function differencesOf(root: ShellNode, source: string): Set<string> {
  const found = new Set<string>()
  look(root, source, found)
  return found
}

/**
 * Returns whether another shell would run a command in text that bash reads as a string, a test or arguments. Such text
 * is never accidental, so it needs approval in every shell.
 */
export function isCommandElsewhere(node: ShellNode, source: string): boolean {
  return (
    isCommandInOtherShells(node, source) || node.children.some((child) => isCommandElsewhere(child, source))
  )
}

function isCommandInOtherShells({ type, start, end, children }: ShellNode, source: string): boolean {
  switch (type) {
    case 'ansi_c_string':
      return /\\'\s*[;&|\n]/.test(source.slice(start, end))
    case 'test_operator':
      return end - start > 2 && !COMPARES.test(source.slice(start, end))
    case 'file_redirect':
      return children.length > 2 && children[0]?.type.startsWith('&>') === true
    default:
      return false
  }
}

/** Operators that compare two operands in `[[ … ]]`. */
const COMPARES = /^-(?:nt|ot|ef|eq|ne|lt|le|gt|ge)$/

function look(node: ShellNode, source: string, found: Set<string>): void {
  const text = source.slice(node.start, node.end)
  const difference = differenceOf(node, text, source.charAt(node.end))
  if (difference !== undefined) found.add(difference)
  for (const child of node.children) look(child, source, found)
}

function differenceOf({ type, children }: ShellNode, text: string, next: string): string | undefined {
  if (/^\{\w+\}$/.test(text) && /[<>]/.test(next)) return '{name}>file'
  if (children.some(({ type, end }, i) => type === '$' && startsString(children[i + 1], end))) return '$"…"'
  const special = Object.hasOwn(BY_TEXT, type) ? BY_TEXT[type] : undefined
  if (special) return special.test(text) ? special.name : undefined
  if (type === 'expansion' && children.some((child) => ONLY_BASH_OPERATOR.test(child.type)))
    return 'operators of an expansion'
  return ONLY_BASH[type]
}

const startsString = (node: ShellNode | undefined, at: number) => node?.type === 'string' && node.start === at
