import type { ShellNode } from './grammar.ts'

/** Nodes that only bash has, or that bash and the other shells called `sh` read differently. */
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
/** Nodes of which only some are read differently. */
const BY_TEXT: Readonly<Record<string, { readonly name: string; readonly test: (text: string) => boolean }>> =
  {
    extglob_pattern: { name: 'extended patterns', test: (text) => /^[?*+@!]\(/.test(text) },
    concatenation: { name: '{a,b}', test: (text) => /\{[^{}]*,/.test(text) },
    file_redirect: { name: '>&file', test: (text) => /^(?:\{\w+\}|\d*>&[^\d-])/.test(text) },
    command_name: { name: 'coproc, time, alias', test: (text) => /^(?:coproc|time|alias)$/.test(text) },
  }
/** Operators of `${x…}` that POSIX does not have. */
const ONLY_BASH_OPERATOR = /^(?:\/{1,2}|\/[#%]|\^{1,2}|,{1,2}|@|:|!)$/

/** What of a script bash and the other shells read differently, in the words of a person. */
export function differencesOf(root: ShellNode, source: string): Set<string> {
  const found = new Set<string>()
  look(root, source, found)
  return found
}

function look(node: ShellNode, source: string, found: Set<string>): void {
  const text = source.slice(node.start, node.end)
  const difference = differenceOf(node, text)
  if (difference !== undefined) found.add(difference)
  for (const child of node.children) look(child, source, found)
}

function differenceOf({ type, children }: ShellNode, text: string): string | undefined {
  const special = Object.hasOwn(BY_TEXT, type) ? BY_TEXT[type] : undefined
  if (special) return special.test(text) ? special.name : undefined
  if (type === 'expansion' && children.some((child) => ONLY_BASH_OPERATOR.test(child.type)))
    return 'operators of an expansion'
  return ONLY_BASH[type]
}
