import {
  type CommandPattern,
  isShortFlags,
  type StageMatcher,
  type WordMatcher,
} from '../../../policies/agent/command-pattern.ts'
import { matchesGlob } from '../../../policies/agent/glob.ts'
import { isAnException, mayBeAnException } from './exceptions.ts'
import { throwsDataAway } from './sql.ts'
import type { CommandView, Operand } from './view.ts'

/** A set of patterns, indexed for matching. */
export interface PatternSet {
  /** Returns the single-command patterns that match a command. */
  ofCommand(view: CommandView): CommandPattern[]
  /** Returns the pipeline patterns that match. Each stage is the list of views of its commands. */
  ofPipeline(stages: readonly (readonly CommandView[])[]): CommandPattern[]
}

/**
 * How `!word` exempts a command from a pattern: only if it certainly applies (`sure`), or if it might
 * (`possible`).
 */
type Exceptions = 'sure' | 'possible'

/** Indexes patterns by command name, so that each command is compared with few patterns. */
export function createPatternSet(
  patterns: readonly CommandPattern[],
  exceptions: Exceptions = 'sure',
): PatternSet {
  const byName = new Map<string, CommandPattern[]>()
  const byGlob: CommandPattern[] = []
  for (const pattern of patterns.filter((p) => p.stages.length === 1)) {
    const names = pattern.stages[0]?.names ?? []
    if (names.some((name) => name.includes('*'))) byGlob.push(pattern)
    else for (const name of names) byName.set(name, [...(byName.get(name) ?? []), pattern])
  }
  const pipelines = patterns.filter((pattern) => pattern.stages.length > 1)
  const isExempt = exceptions === 'sure' ? isAnException : mayBeAnException
  const fits = (stage: StageMatcher, view: CommandView, seesHidden: boolean) =>
    stage.names.some((name) => matchesGlob(name, view.name)) &&
    fitsWords(stage, view, seesHidden) &&
    !isExempt(stage, view)
  const hasForm = (pattern: CommandPattern, stages: readonly (readonly CommandView[])[]) => {
    let next = 0
    for (const views of stages) {
      const stage = pattern.stages[next]
      if (stage && views.some((view) => fits(stage, view, false))) next++
    }
    return next === pattern.stages.length
  }
  return {
    ofCommand: (view) =>
      [...(byName.get(view.name) ?? []), ...byGlob].filter(
        ({ stages: [stage], seesHiddenWords = false }) => stage && fits(stage, view, seesHiddenWords),
      ),
    ofPipeline: (stages) => pipelines.filter((pattern) => hasForm(pattern, stages)),
  }
}

/**
 * Whether a command carries every word that a stage requires. With `seesHidden`, unknown words may stand for
 * missing ones.
 */
function fitsWords({ words }: StageMatcher, view: CommandView, seesHidden: boolean): boolean {
  const isCarried = (word: WordMatcher) =>
    word.kind === 'operand' || word.kind === 'flag' || carries(view, word)
  if (!words.every(isCarried)) return false
  const spare = spareAfterOperands(words, view, seesHidden)
  if (spare === undefined) return false
  const hasFlags = words.every((word) => word.kind !== 'flag' || carriesAny(view, word.anyOf))
  return hasFlags || (seesHidden && (view.hasUnknownFlags || standsForFlag(words, view, spare)))
}

/**
 * A single unknown word counts as a flag only if there is another operand: `rm "$file"` is not `rm -r`, but `rm "$a" b`
 * may be.
 */
function standsForFlag(words: readonly WordMatcher[], view: CommandView, spare: number): boolean {
  const operands = words.filter(({ kind }) => kind === 'operand').length
  return spare === Number.POSITIVE_INFINITY || (spare > 0 && view.operands.length > operands + 1)
}

const carriesAny = (view: CommandView, flags: readonly string[]) =>
  flags.some((flag) => carriesFlag(view, flag))

/**
 * Finds the required operands in order. Returns how many unknown words are left over, or undefined if an
 * operand is missing.
 */
function spareAfterOperands(
  words: readonly WordMatcher[],
  view: CommandView,
  seesHidden: boolean,
): number | undefined {
  let spare = seesHidden ? hiddenWords(view) : 0
  let at = 0
  for (const word of words) {
    if (word.kind !== 'operand') continue
    const found = findOperand(word, view.operands.slice(at), spare > 0)
    if (found === undefined) return undefined
    at += found.next
    spare -= found.uses
  }
  return spare
}

/** The number of words that are unknown until the command runs. */
const hiddenWords = ({ operands }: CommandView): number =>
  operands.reduce(
    (sum, { hidden }) => sum + (hidden === 'words' ? Number.POSITIVE_INFINITY : hidden ? 1 : 0),
    0,
  )

interface Found {
  /** Offset at which the search for the next operand starts. */
  readonly next: number
  /** Number of unknown words used in place of this operand. */
  readonly uses: number
}

type OperandMatcher = Extract<WordMatcher, { kind: 'operand' }>

function findOperand(
  { anyOf, isNext }: OperandMatcher,
  operands: readonly Operand[],
  mayUseHidden: boolean,
): Found | undefined {
  const reachable = isNext ? upToFirst(operands) : operands
  const known = reachable.findIndex(({ text, hidden }) => !hidden && matchesAny(anyOf, text))
  if (known >= 0) return { next: known + 1, uses: 0 }
  const at = reachable.findIndex((operand) => operand.hidden)
  if (at < 0) return undefined
  if (!mayUseHidden) return matchesAny(anyOf, '') ? { next: at + 1, uses: 0 } : undefined
  return reachable[at]?.hidden === 'words' ? { next: at, uses: 0 } : { next: at + 1, uses: 1 }
}

/** The operands up to the first one that is certainly not a flag's value. The subcommand is among them. */
function upToFirst(operands: readonly Operand[]): readonly Operand[] {
  const first = operands.findIndex(({ followsFlag, hidden }) => !followsFlag && hidden !== 'words')
  return first < 0 ? operands : operands.slice(0, first + 1)
}

function carries(view: CommandView, word: Exclude<WordMatcher, { kind: 'operand' | 'flag' }>): boolean {
  switch (word.kind) {
    case 'output':
      return view.outputs.some((target) => matchesAny(word.anyOf, target))
    case 'input':
      return view.inputs.some((source) => matchesAny(word.anyOf, source))
    case 'text':
      return view.texts.some((text) => matchesAny(word.anyOf, text))
    case 'stdin':
      return view.readsProgram
    case 'substitution':
      return view.hasSubstitution
    case 'sql':
      return throwsDataAway(view)
    case 'without':
      return true
  }
}

/** Long flags may be abbreviated (`--recurs`), as `getopt_long` allows. */
function carriesFlag(view: CommandView, flag: string): boolean {
  if (flag === '--') return view.flags.includes('--')
  if (isShortFlags(flag)) {
    return [...flag.slice(1)].every((letter) => view.letters.has(letter)) || view.flags.includes(flag)
  }
  if (!flag.startsWith('--')) return view.flags.includes(flag)
  return view.flags.some((given) => given.length > 2 && flag.startsWith(given))
}

const matchesAny = (globs: readonly string[], text: string): boolean => {
  const lower = text.toLowerCase()
  return globs.some((glob) => matchesGlob(glob, lower))
}
