import type { SimpleCommand } from './commands.ts'
import type { Feed } from './feed.ts'
import { OUTSIDE, UNKNOWN, WORDS } from './marks.ts'
import type { Word } from './words.ts'

/** A word that is no flag. */
export interface Operand {
  readonly text: string
  /** It stands behind a flag, and may be that flag's value. */
  readonly followsFlag: boolean
  /** What it is, nobody knows before it runs: one word, or any number of words. */
  readonly hidden: 'word' | 'words' | undefined
}

/** A command as patterns look at it: its name, its flags taken apart, and its other words. */
export interface CommandView {
  readonly name: string
  /** Letters of short flags, from clusters too. */
  readonly letters: ReadonlySet<string>
  /** Every flag as one word, lower case, without `=value`; `--` is one of them. */
  readonly flags: readonly string[]
  /** Every word as it is. */
  readonly words: readonly string[]
  readonly operands: readonly Operand[]
  /** A part of a flag is unknown before it runs: it could be any. */
  readonly hasUnknownFlags: boolean
  readonly readsProgram: boolean
  readonly outputs: readonly string[]
  readonly inputs: readonly string[]
  readonly hasSubstitution: boolean
  /** Texts on its standard input, where they are known. */
  readonly texts: readonly string[]
  /** It only shows how it is used. */
  readonly asksForHelp: boolean
}

/** The last segment of a command's path, lower case: some file systems do not tell `RM` from `rm`. */
export function nameOf(words: readonly Word[]): string {
  const text = words[0]?.text ?? ''
  const name = text.slice(Math.max(text.lastIndexOf('/'), text.lastIndexOf('\\')) + 1).toLowerCase()
  return name.endsWith('.exe') ? name.slice(0, -4) : name
}

/** Whether only the shell will know which program the words name. */
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

/** A text that begins with what nobody knows could be a flag. */
function hiddenIn(text: string): Operand['hidden'] {
  if (text.includes(WORDS)) return 'words'
  return text.startsWith(UNKNOWN) ? 'word' : undefined
}

const isHidden = (text: string) => text.includes(UNKNOWN) || text.includes(WORDS)

const isFlag = (word: Word) => word.text.startsWith('-') && word.text.length > 1

const IS_SHELL = /sh$|^(?:exe|source|\.)$/
const STDIN_NAMES = new Set(['-', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0'])

/** Whether an interpreter with these words takes its program from standard input. */
function readsProgram(words: readonly Word[], letters: ReadonlySet<string>): boolean {
  // `-e` lets a shell end at the first failure; other interpreters take their program behind it.
  const program = IS_SHELL.test(nameOf(words)) ? /^-[A-Za-z]*c/ : /^-[A-Za-z\d]*[ceEpr]/
  if (words.some(({ text }, i) => i > 0 && program.test(text))) return false
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

/** A word that any word or number of words could stand for. */
export const anyWords = (kind: Feed['kind']): string => (kind === 'plain' ? OUTSIDE : WORDS)
