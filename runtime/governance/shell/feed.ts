import { EXEC_LIMITS } from '../../../contracts/exec.ts'
import { decodeEscapes } from './unquote.ts'
import type { Word } from './words.ts'

/**
 * Output of a pipeline stage: known text, a list of paths, numbers or names (`plain`), or unknown until it
 * runs.
 */
export type Feed = { readonly kind: 'text'; readonly text: string } | { readonly kind: 'plain' | 'unknown' }

interface Writer {
  readonly words: readonly Word[]
  readonly documents: readonly string[]
}

/** Returns what `echo`, `printf` or `cat` with a here-document prints, if the text of the command shows it. */
export function writtenBy({ words, documents }: Writer): string | undefined {
  const [name, ...args] = words.map(({ text }) => text)
  switch (name) {
    case 'echo':
    case 'printf':
      if (args.some((text) => /[\uE000-\uE002]/.test(text))) return undefined
      return name === 'echo' ? echoed(args) : printed(args)
    case 'cat':
      return args.length === 0 && documents.length > 0 ? documents.join('\n') : undefined
    default:
      return undefined
  }
}

/**
 * Escapes are decoded only with `-e`. Line feeds are always decoded, because some shells do so without the
 * flag.
 */
function echoed(args: readonly string[]): string {
  const text = args.filter((arg) => !ECHO_FLAG.test(arg)).join(' ')
  const isEscaped = args.some((arg) => ECHO_FLAG.test(arg) && arg.includes('e'))
  return isEscaped ? unescaped(text) : text.replace(/\\[n0]/g, '\n')
}

const ECHO_FLAG = /^-[neE]+$/

/** `printf` repeats its format while arguments are left. */
function printed(args: readonly string[]): string | undefined {
  const [format = '', ...values] = args[0] === '--' ? args.slice(1) : args
  if (/%(?!%|[sbqdiuc])/.test(format)) return undefined
  const left = [...values]
  let text = ''
  do {
    const before = left.length
    text += unescaped(format).replace(/%([%sbqdiuc])/g, (_all, kind: string) => converted(kind, left))
    if (text.length > EXEC_LIMITS.maxCommandBytes) return undefined
    if (left.length === before) break
  } while (left.length > 0)
  return text
}

/** Formats the next argument by one directive and removes it from the list. */
function converted(kind: string, left: string[]): string {
  if (kind === '%') return '%'
  const value = left.shift() ?? ''
  if (kind === 'b') return unescaped(value)
  return kind === 'c' ? value.slice(0, 1) : value
}

/** `\c` ends the output. A NUL is treated as a line feed. */
const unescaped = (text: string): string =>
  decodeEscapes((text.split('\\c', 1)[0] ?? '').replace(/\\0([0-7]{3})/g, '\\$1')).replaceAll('\0', '\n')
