import type { CommandShell } from '../../../contracts/exec.ts'
import type { SimpleCommand } from './commands.ts'
import { OUTSIDE, UNKNOWN, WORDS } from './marks.ts'
import type { Positional } from './variables.ts'
import { type CommandView, nameOf } from './view.ts'
import { type Word, wordOf } from './words.ts'

/** A script that a command passes to a shell. */
export interface InnerScript {
  readonly script: Word
  readonly shell: CommandShell
  readonly positional?: Positional
  /** Whether the script runs only under conditions that the text does not show. */
  readonly isGuess?: boolean
}

export interface ScriptFile {
  readonly path: string
  readonly shell: CommandShell
}

/** `exe`: a shell can start itself as `/proc/self/exe`. */
const SHELLS = new Set([
  'exe',
  'sh',
  'bash',
  'dash',
  'ash',
  'zsh',
  'ksh',
  'mksh',
  'fish',
  'csh',
  'tcsh',
  'rbash',
  'posh',
])
const STDIN_FILES = /^(?:-|\/dev\/stdin|\/dev\/fd\/0|\/proc\/self\/fd\/0)$/

/** Returns the scripts in the words and here-documents of a command. `shell` is the shell that runs the command. */
export function innerScripts(
  words: readonly Word[],
  command: SimpleCommand,
  shell: CommandShell,
): InnerScript[] {
  const operands = words.slice(1).filter(({ text }) => text !== '--' && !/^-[lp]$/.test(text))
  switch (nameOf(words)) {
    case 'eval':
      return [{ script: joined(operands), shell }]
    case 'trap':
      return operands.slice(0, 1).map((script) => ({ script, shell }))
    case 'alias':
      return operands.map((word) => ({
        script: wordOf(word.text.replace(/^[^=]*=/, '')),
        shell,
        isGuess: true,
      }))
    case 'source':
    case '.':
      return STDIN_FILES.test(operands[0]?.text ?? '') ? documentsOf(command, { shell }) : []
    case 'at':
    case 'batch':
    case 'crontab':
      return documentsOf(command, { shell: 'sh' })
    default:
      return SHELLS.has(nameOf(words)) ? ofShell(words, command) : []
  }
}

/** A parsed shell command line: the effect of its flags, and the words after them. */
interface Invocation {
  readonly isCommandString: boolean
  readonly readsStdin: boolean
  readonly shell: CommandShell
  readonly operands: readonly Word[]
}

/** Flags that take the next word as a value: `-o pipefail`, `--rcfile x`. */
const VALUED_FLAG = /^(?:[-+][A-Za-z]*[oO]|--(?:rcfile|init-file))$/
/** Flags that make bash parse scripts differently: POSIX mode, aliases, compatibility modes. */
const CHANGES_BASH = /^(?:--posix|-[A-Za-z]*i[A-Za-z]*|-O (?:expand_aliases|compat.*)|-[A-Za-z]*o posix)$/

function readInvocation(words: readonly Word[]): Invocation {
  let at = 1
  const flags: string[] = []
  for (; at < words.length; at++) {
    const text = words[at]?.text ?? ''
    if (!/^[-+]./.test(text)) break
    if (text === '--') {
      at++
      break
    }
    const isValued = VALUED_FLAG.test(text)
    flags.push(isValued ? `${text} ${words[++at]?.text}` : text)
  }
  const short = flags.filter((flag) => /^-[A-Za-z]+$/.test(flag)).join('')
  const isBash = /^r?bash$/.test(nameOf(words)) && !flags.some((flag) => CHANGES_BASH.test(flag))
  return {
    isCommandString: short.includes('c'),
    readsStdin: short.includes('s'),
    shell: isBash ? 'bash' : 'sh',
    operands: words.slice(at),
  }
}

function ofShell(words: readonly Word[], command: SimpleCommand): InnerScript[] {
  const { isCommandString, readsStdin, shell, operands } = readInvocation(words)
  const [first, ...rest] = operands
  if (isCommandString) {
    if (!first) return []
    const [zero, ...list] = rest.map(({ text }) => text)
    return [{ script: first, shell, positional: { lists: [list], zero: zero ?? OUTSIDE } }]
  }
  const list = (readsStdin ? operands : rest).map(({ text }) => text)
  if (!readsStdin && first && !STDIN_FILES.test(first.text)) return []
  return documentsOf(command, { shell, positional: { lists: [list], zero: OUTSIDE } })
}

/**
 * Returns the script files that a command runs: the command itself, the first operand of a shell, or a shell's
 * standard input.
 */
export function scriptFilesOf(
  words: readonly Word[],
  { inputs }: SimpleCommand,
  shell: CommandShell,
): ScriptFile[] {
  const [first, second] = words
  const name = nameOf(words)
  if (/^(?:source|\.)$/.test(name) && second) return [{ path: second.text, shell }]
  if (SHELLS.has(name)) {
    const { isCommandString, readsStdin, operands, shell: inner } = readInvocation(words)
    if (isCommandString) return []
    const [file] = operands
    const paths = readsStdin || file === undefined ? inputs : [file.text]
    return paths.map((path) => ({ path, shell: inner }))
  }
  return first?.text.includes('/') ? [{ path: first.text, shell: 'sh' }] : []
}

/** Interpreters that accept a program as an argument. */
const INTERPRETER = /^(?:python[\d.]*|node|nodejs|deno|bun|perl|ruby|php|lua)$/
const CODE_FLAG = /^(?:-[A-Za-z]*[cerp]|--eval|--print|eval)$/
const HIDDEN = new RegExp(`^[${UNKNOWN}${WORDS}${OUTSIDE}]+$`)

/** Returns whether the program passed to a shell, `source` or another interpreter is unknown until it runs. */
export function runsHiddenProgram(view: CommandView, words: readonly Word[]): boolean {
  const isHidden = ({ text }: Word) => HIDDEN.test(text)
  if (INTERPRETER.test(view.name))
    return words.some((word, i) => isHidden(word) && CODE_FLAG.test(words[i - 1]?.text ?? ''))
  if (!SHELLS.has(view.name) && view.name !== 'source' && view.name !== '.') return false
  if (view.readsProgram && view.inputs.some((input) => /^\d+$/.test(input))) return true
  const { isCommandString, operands } = readInvocation(words)
  const untilScript = words.slice(1, words.length - operands.length + 1)
  return !isCommandString && untilScript.some(isHidden)
}

const documentsOf = ({ documents, feed }: SimpleCommand, into: Omit<InnerScript, 'script'>): InnerScript[] =>
  [...documents, ...(feed?.kind === 'text' ? [feed.text] : [])].map((text) => ({
    script: wordOf(text),
    ...into,
  }))

const joined = (words: readonly Word[]): Word => wordOf(words.map(({ text }) => text).join(' '))
