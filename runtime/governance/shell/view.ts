import type { SimpleCommand } from './commands.ts'
import type { Feed } from './feed.ts'
import { OUTSIDE, UNKNOWN, WORDS } from './marks.ts'
import type { Word } from './words.ts'

/** A word that is not a flag. */
export interface Operand {
  readonly text: string
  /** Whether it follows a flag, and may be that flag's value. */
  readonly followsFlag: boolean
  /** Set if the word is unknown until the command runs: one word, or any number of words. */
  readonly hidden: 'word' | 'words' | undefined
}

/** A command in the form that patterns match: its name, its flags, and its other words. */
export interface CommandView {
  readonly name: string
  /** Letters of all short flags, clusters split. */
  readonly letters: ReadonlySet<string>
  /** All flags in lower case, without `=value`. Includes `--`. */
  readonly flags: readonly string[]
  /** All words, unchanged. */
  readonly words: readonly string[]
  readonly operands: readonly Operand[]
  /** Whether a part of a flag is unknown until the command runs, so that it may be any flag. */
  readonly hasUnknownFlags: boolean
  readonly readsProgram: boolean
  readonly outputs: readonly string[]
  readonly inputs: readonly string[]
  readonly hasSubstitution: boolean
  /** Known texts on its standard input. */
  readonly texts: readonly string[]
  /** Whether it only prints its help. */
  readonly asksForHelp: boolean
}

/** The last segment of the command's path, in lower case: some file systems ignore case, so `RM` is `rm`. */
export function nameOf(words: readonly Word[]): string {
  const text = words[0]?.text ?? ''
  const name = text.slice(Math.max(text.lastIndexOf('/'), text.lastIndexOf('\\')) + 1).toLowerCase()
  return name.endsWith('.exe') ? name.slice(0, -4) : name
}

/** Returns whether the program's name is known only when the command runs. */
export const isUnknownName = (word: Word | undefined): boolean =>
  word !== undefined && (word.isUnknown || word.isPattern)

export function viewOf(words: readonly Word[], command: SimpleCommand): CommandView {
  const ends = words.findIndex((word, i) => i > 0 && word.text === '--')
  const end = ends < 0 ? words.length : ends
  const flagWords = words.slice(1, end).filter((word) => isFlag(word))
  const letters = new Set(
    flagWords.filter((w) => !w.text.startsWith('--')).flatMap((w) => [...w.text.slice(1)]),
  )
  const flags = flagWords.map((word) => word.text.toLowerCase().split('=', 1)[0] ?? '')
  return {
    name: nameOf(words),
    letters,
    flags: ends < 0 ? flags : [...flags, '--'],
    words: words.map(({ text }) => text),
    operands: operandsOf(words, end),
    hasUnknownFlags: flagWords.some((word) => isHidden(word.text.split('=', 1)[0] ?? '')),
    readsProgram: readsProgram(words, letters),
    outputs: command.outputs.map(canonicalPath),
    inputs: command.inputs.map(canonicalPath),
    hasSubstitution: command.readsSubstitution || words.some((word) => word.isSubstitution),
    texts: [...command.documents, ...textOfFeed(command.feed)],
    asksForHelp: flagWords[0]?.text === '--help',
  }
}

const textOfFeed = (feed: Feed | undefined): string[] => (feed?.kind === 'text' ? [feed.text] : [])

function operandsOf(words: readonly Word[], end: number): Operand[] {
  const operands: Operand[] = []
  for (const [i, word] of words.entries()) {
    if (i === 0 || i === end || (i < end && isFlag(word))) continue
    const before = words[i - 1]
    operands.push({
      text: canonical(word.text),
      followsFlag: i > 1 && i <= end && before !== undefined && isFlag(before) && !before.text.includes('='),
      hidden: i < end ? hiddenIn(word.text) : undefined,
    })
  }
  return operands
}

/** A text that starts with an unknown part could be a flag. */
function hiddenIn(text: string): Operand['hidden'] {
  if (text.includes(WORDS)) return 'words'
  return text.startsWith(UNKNOWN) ? 'word' : undefined
}

const isHidden = (text: string) => text.includes(UNKNOWN) || text.includes(WORDS)

const isFlag = (word: Word) => word.text.startsWith('-') && word.text.length > 1

const IS_SHELL = /sh$|^(?:exe|source|\.)$/
const STDIN_NAMES = new Set(['-', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0'])

/** Returns whether an interpreter reads its program from standard input. */
function readsProgram(words: readonly Word[], letters: ReadonlySet<string>): boolean {
  // `-e` takes a program in most interpreters, but makes a shell exit at the first failure.
  const program = IS_SHELL.test(nameOf(words)) ? /^-[A-Za-z]*c/ : /^-[A-Za-z\d]*[ceEpr]/
  if (words.some(({ text }, i) => i > 0 && program.test(text))) return false
  if (letters.has('s')) return true
  return !words.some((word, i) => {
    if (i === 0 || isFlag(word) || STDIN_NAMES.has(word.text)) return false
    return !/^-[A-Za-z]*[oO]$/.test(words[i - 1]?.text ?? '')
  })
}

/** `//dev/./sda` and `/dev/sda` are the same path. */
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

/** A placeholder for any number of words. */
export const anyWords = (kind: Feed['kind']): string => (kind === 'plain' ? OUTSIDE : WORDS)
