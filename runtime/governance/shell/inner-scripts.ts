import type { SimpleCommand } from './commands.ts'
import type { CommandView } from './view.ts'
import type { Word } from './words.ts'
import { unwrap } from './wrappers.ts'

const SHELLS = new Set(['sh', 'bash', 'dash', 'ash', 'zsh', 'ksh', 'mksh', 'fish', 'rbash', 'posh'])

/** The scripts that a command is given to run: in its words, in its here-documents. */
export function innerScripts(view: CommandView, words: readonly Word[], command: SimpleCommand): Word[] {
  const wrapped = unwrap(view.name, words).scripts
  switch (view.name) {
    case 'eval':
      return [joined(words.slice(1))]
    case 'trap':
      return words.slice(1)
    case 'alias':
      return words.slice(1).map((word) => ({ ...word, text: word.text.replace(/^[\w.-]+=/, '') }))
    default:
      return SHELLS.has(view.name) ? [...wrapped, ...shellScripts(view, words, command)] : [...wrapped]
  }
}

function shellScripts(view: CommandView, words: readonly Word[], command: SimpleCommand): Word[] {
  const script = commandStringOf(words)
  if (script) return [script]
  return view.readsProgram ? command.documents.map((text) => ({ ...joined([]), text })) : []
}

/** The text after `-c` and further options (`-c -o pipefail`), where short flags hold a `c` (`-lc`, `-euxc`). */
function commandStringOf(words: readonly Word[]): Word | undefined {
  const flag = words.findIndex((word, i) => i > 0 && /^-[A-Za-z]*c[A-Za-z]*$/.test(word.text))
  if (flag < 0) return undefined
  const isOptionName = (at: number) => /^[-+][A-Za-z]*[oO]$/.test(words[at - 1]?.text ?? '')
  return words.find((word, at) => at > flag && !/^[-+]/.test(word.text) && !isOptionName(at))
}

const joined = (words: readonly Word[]): Word => ({
  text: words.map((word) => word.text).join(' '),
  isUnknown: words.some((word) => word.isUnknown),
  isAnyWords: false,
  isSubstitution: false,
})
