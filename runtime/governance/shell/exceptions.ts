import { isShortFlags, type StageMatcher } from '../../../policies/agent/command-pattern.ts'
import type { CommandView } from './view.ts'

/**
 * Whether a command surely carries a word that keeps it from a pattern (`!--dry-run`), or only shows its help. It
 * counts where no flag before it can have taken it for its value, and nothing takes it back (`--no-dry-run`).
 */
export function isAnException(stage: StageMatcher, view: CommandView): boolean {
  if (view.asksForHelp) return true
  const exceptions = exceptionsOf(stage)
  if (exceptions.length === 0 || view.hasUnknownFlags || view.operands.some(({ hidden }) => hidden))
    return false
  const words = view.words.slice(1, endOfFlags(view.words))
  if (words.some((word) => takesBack(word, exceptions))) return false
  return words.some((word, i) => exceptions.includes(word) && standsAlone(words, i, stage))
}

/** Whether a command carries such a word, however that is meant. */
export function mayBeAnException(stage: StageMatcher, view: CommandView): boolean {
  if (view.hasUnknownFlags || view.operands.some(({ hidden }) => hidden)) return true
  return exceptionsOf(stage).some((exception) =>
    isShortFlags(exception) && exception.startsWith('-') && exception !== '--'
      ? [...exception.slice(1)].some((letter) => view.letters.has(letter))
      : view.words.some((word) => word.startsWith(exception)),
  )
}

const exceptionsOf = ({ words }: StageMatcher): readonly string[] =>
  words.flatMap((word) => (word.kind === 'without' ? word.anyOf : []))

const endOfFlags = (words: readonly string[]): number => {
  const end = words.indexOf('--')
  return end < 0 ? words.length : end
}

/** `--no-dry-run`, `--dry-run=false`. */
const takesBack = (word: string, exceptions: readonly string[]): boolean =>
  word.startsWith('--no-') ||
  exceptions.some(
    (one) => word !== one && one.startsWith('--') && word.startsWith(`${one}=`) && !exceptions.includes(word),
  )

/** A flag before it that the pattern does not know could take it for its value; a bare word ends the command. */
function standsAlone(words: readonly string[], at: number, stage: StageMatcher): boolean {
  if (!words[at]?.startsWith('-')) return at === words.length - 1
  const before = words[at - 1] ?? ''
  if (!before.startsWith('-') || before.includes('=')) return true
  const known = stage.words.flatMap((word) => ('anyOf' in word ? word.anyOf : []))
  // Only the last letter of a cluster can take a value.
  const last = /^-[A-Za-z]+$/.test(before) ? `-${before.at(-1)}` : before
  return known.includes(before) || known.includes(last)
}
