/** One condition on the words of a command: a word that must be present or must be absent. */
export type WordMatcher =
  | { readonly kind: 'flag'; readonly anyOf: readonly string[] }
  /** `isNext`: only flags and their values may precede the operand. */
  | { readonly kind: 'operand'; readonly anyOf: readonly string[]; readonly isNext: boolean }
  | { readonly kind: 'output' | 'input' | 'text'; readonly anyOf: readonly string[] }
  | { readonly kind: 'without'; readonly anyOf: readonly string[] }
  | { readonly kind: 'stdin' | 'substitution' | 'sql' }

/** One command of a pipeline: its names, and the words that it must contain. Flags may be in any order. */
export interface StageMatcher {
  readonly names: readonly string[]
  readonly words: readonly WordMatcher[]
}

/** A parsed pattern: stages that follow each other in one pipeline. `text` is what the operator wrote. */
export interface CommandPattern {
  readonly text: string
  readonly stages: readonly StageMatcher[]
  /** A word that is not known before it runs counts as one that is missing. */
  readonly seesHiddenWords?: boolean
}

export type PatternParse =
  | { readonly ok: true; readonly pattern: CommandPattern }
  | { readonly ok: false; readonly reason: string }

const MAX_WORDS = 32
// Words of a pattern are compared as plain text. Quotes and expansions are rejected because they would have no effect.
const FORBIDDEN = /["'`$;&(){}\\]|[\x00-\x1f\x7f]/
const EXACT_FLAG_LETTERS = 3

class PatternError extends Error {}

/** Parses one pattern. Rejects, with the reason, a pattern that could never match or that matches every command. */
export function parseCommandPattern(text: string): PatternParse {
  try {
    const words = text.trim().split(/ +/)
    if (text.trim() === '') throw new PatternError('is empty')
    const forbidden = FORBIDDEN.exec(text)
    if (forbidden) throw new PatternError(`must not contain ${JSON.stringify(forbidden[0])}`)
    if (words.length > MAX_WORDS) throw new PatternError(`has more than ${MAX_WORDS} words`)
    const stages = splitStages(words).map(parseStage)
    const [only] = stages
    if (stages.length === 1 && only?.names.includes('*') && !only.words.some(narrows)) {
      throw new PatternError('matches every command; set require_approval_for_all_shell')
    }
    return { ok: true, pattern: { text: text.trim(), stages } }
  } catch (error) {
    if (error instanceof PatternError) return { ok: false, reason: error.message }
    throw error
  }
}

const narrows = ({ kind }: WordMatcher): boolean => kind !== 'without'

function splitStages(words: readonly string[]): string[][] {
  const stages: string[][] = [[]]
  for (const word of words) {
    if (word === '|') stages.push([])
    else stages.at(-1)?.push(word)
  }
  return stages
}

const STREAMS = { '>': 'output', '<': 'input', '<<': 'text' } as const
const isStream = (word: string): word is keyof typeof STREAMS => Object.hasOwn(STREAMS, word)

function parseStage(words: readonly string[]): StageMatcher {
  const [name, ...rest] = words
  if (name === undefined) throw new PatternError('has a pipe without a command beside it')
  if (/^[-@<>!^]/.test(name)) throw new PatternError(`must begin with a command name, not "${name}"`)
  const matchers: WordMatcher[] = []
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i] as string
    if (!isStream(word)) {
      matchers.push(parseWord(word))
      continue
    }
    const target = rest[++i]
    if (target === undefined)
      throw new PatternError(`has "${word}" without a ${word === '<<' ? 'text' : 'file'} after it`)
    matchers.push({ kind: STREAMS[word], anyOf: lowerCase(alternatives(target)) })
  }
  return { names: lowerCase(alternatives(name)), words: matchers }
}

const SPECIAL = { '@stdin': 'stdin', '@substitution': 'substitution', '@sql': 'sql' } as const
const isSpecial = (word: string): word is keyof typeof SPECIAL => Object.hasOwn(SPECIAL, word)

function parseWord(word: string): WordMatcher {
  if (isSpecial(word)) return { kind: SPECIAL[word] }
  if (/^[@|<>]/.test(word)) throw new PatternError(`has an unknown word "${word}"`)
  if (word.startsWith('!')) return { kind: 'without', anyOf: alternatives(word.slice(1)) }
  if (word.startsWith('^')) return operand(alternatives(word.slice(1)), true)
  const anyOf = alternatives(word)
  const flags = anyOf.filter((one) => one.startsWith('-') && !/^-\d{2,}|^-1$/.test(one))
  if (flags.length === 0) return operand(anyOf, false)
  if (flags.length < anyOf.length) throw new PatternError(`mixes flags and other words in "${word}"`)
  return { kind: 'flag', anyOf: anyOf.map(normaliseFlag) }
}

const operand = (anyOf: readonly string[], isNext: boolean): WordMatcher => ({
  kind: 'operand',
  anyOf: lowerCase(anyOf),
  isNext,
})

/** Long words lose their letter case; up to three letters after one dash are a set of short flags. */
function normaliseFlag(flag: string): string {
  if (flag === '-') throw new PatternError('has a flag without a letter')
  return isShortFlags(flag) ? flag : flag.toLowerCase()
}

/** Whether `-rf` is meant as the letters `r` and `f` and not as one long word such as `-delete`. */
export const isShortFlags = (flag: string): boolean =>
  !flag.startsWith('--') && flag.length - 1 <= EXACT_FLAG_LETTERS

/** Words are compared without their letter case: some systems do not tell it apart, and asking more is safe. */
const lowerCase = (words: readonly string[]): string[] => words.map((word) => word.toLowerCase())

function alternatives(word: string): string[] {
  const all = word.split(',')
  if (all.includes('')) throw new PatternError(`has an empty alternative in "${word}"`)
  return all
}
