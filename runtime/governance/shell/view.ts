import type { SimpleCommand } from './commands.ts'
import { UNKNOWN, type Word } from './words.ts'

/** A command as patterns look at it: its name, its flags taken apart, and its other words. */
export interface CommandView {
  readonly name: string
  readonly isUnknown: boolean
  /** Letters of short flags, from clusters too. */
  readonly letters: ReadonlySet<string>
  /** Every flag as one word, lower case, without `=value`. */
  readonly flags: readonly string[]
  readonly operands: readonly string[]
  /** A flag is unknown before it runs: it could be any. */
  readonly hasUnknownFlags: boolean
  readonly readsProgram: boolean
  readonly outputs: readonly string[]
  readonly inputs: readonly string[]
  readonly hasSubstitution: boolean
}

/** The last segment of a command's path, lower case: some file systems do not tell `RM` from `rm`. */
export function nameOf(words: readonly Word[]): string {
  const text = words[0]?.text ?? ''
  const name = text.slice(Math.max(text.lastIndexOf('/'), text.lastIndexOf('\\')) + 1).toLowerCase()
  return name.endsWith('.exe') ? name.slice(0, -4) : name
}

/** Whether only the shell will know which program the words name. */
export const isUnknownName = (word: Word | undefined): boolean =>
  word !== undefined && (word.isUnknown || /[*?]|\[[^\]]+\]/.test(word.text))

export function viewOf(words: readonly Word[], command: SimpleCommand): CommandView {
  const ends = words.findIndex((word, i) => i > 0 && word.text === '--')
  const end = ends < 0 ? words.length : ends
  const flagWords = words.slice(1, end).filter((word) => isFlag(word))
  const letters = new Set(
    flagWords.filter((w) => !w.text.startsWith('--')).flatMap((w) => [...w.text.slice(1)]),
  )
  const operands = words.filter((word, i) => i > 0 && i !== ends && !(i < end && isFlag(word)))
  return {
    name: nameOf(words),
    isUnknown: isUnknownName(words[0]),
    letters,
    flags: flagWords.map((word) => word.text.toLowerCase().split('=', 1)[0] ?? ''),
    operands: operands.map((word) => canonical(word.text)),
    hasUnknownFlags:
      flagWords.some((word) => word.text.split('=', 1)[0]?.includes(UNKNOWN)) ||
      words.some((w) => w.isAnyWords),
    readsProgram: readsProgram(words, letters),
    outputs: command.outputs.map(canonicalPath),
    inputs: command.inputs.map(canonicalPath),
    hasSubstitution: command.readsSubstitution || words.some((word) => word.isSubstitution),
  }
}

const isFlag = (word: Word) => word.text.startsWith('-') && word.text.length > 1

const STDIN_NAMES = new Set(['-', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0'])

/** Whether an interpreter with these words takes its program from standard input. */
function readsProgram(words: readonly Word[], letters: ReadonlySet<string>): boolean {
  if (letters.has('c') || letters.has('e')) {
    const short = words.some((w) => /^-[A-Za-z]*[ce]$/.test(w.text) && w.text !== '-e')
    if (short) return false
  }
  if (letters.has('s')) return true
  return !words.some((word, i) => {
    if (i === 0 || isFlag(word) || STDIN_NAMES.has(word.text)) return false
    return !/^-[A-Za-z]*[oO]$/.test(words[i - 1]?.text ?? '')
  })
}

/** `//dev/./sda` names what `/dev/sda` names. */
const canonical = (text: string): string => (text.includes('/') ? text.replace(/\/(?:\.?\/)+/g, '/') : text)

function canonicalPath(text: string): string {
  if (!text.startsWith('/') || !text.includes('..')) return canonical(text)
  const names: string[] = []
  for (const name of canonical(text).split('/')) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(name)
  }
  return `/${names.join('/')}`
}
