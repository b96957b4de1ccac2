import { isShortFlags, type StageMatcher } from '../../../policies/agent/command-pattern.ts'
import type { CommandView } from './view.ts'

/**
 * Returns whether a command certainly carries a word that exempts it from a pattern (`!--dry-run`), or only
 * prints its help. The word does not count if a flag before it may take it as a value, or if another flag
 * reverts it (`--no-dry-run`).
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

/** Returns whether a command carries such a word in any position or form. */
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

/** Matches `--no-dry-run` and `--dry-run=false`. */
const takesBack = (word: string, exceptions: readonly string[]): boolean =>
  word.startsWith('--no-') ||
  exceptions.some(
    (one) => word !== one && one.startsWith('--') && word.startsWith(`${one}=`) && !exceptions.includes(word),
  )

/**
 * Whether the word is certainly not the value of the flag before it. Flags named by the pattern take no such
 * value. A bare word counts only at the end of the command.
 */
function standsAlone(words: readonly string[], at: number, stage: StageMatcher): boolean {
  if (!words[at]?.startsWith('-')) return at === words.length - 1
  const before = words[at - 1] ?? ''
  if (!before.startsWith('-') || before.includes('=')) return true
  const known = stage.words.flatMap((word) => ('anyOf' in word ? word.anyOf : []))
  // Only the last letter of a flag cluster can take a value.
  const last = /^-[A-Za-z]+$/.test(before) ? `-${before.at(-1)}` : before
  return known.includes(before) || known.includes(last)
}
