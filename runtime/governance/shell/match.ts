import {
  type CommandPattern,
  isShortFlags,
  type StageMatcher,
  type WordMatcher,
} from '../../../policies/agent/command-pattern.ts'
import { matchesGlob } from '../../../policies/agent/glob.ts'
import type { CommandView } from './view.ts'

/** A set of patterns, ready to be asked about commands. */
export interface PatternSet {
  /** The patterns that one command alone has the form of. */
  ofCommand(view: CommandView): CommandPattern[]
  /** The patterns that a pipeline has the form of; each stage is the views of its commands. */
  ofPipeline(stages: readonly (readonly CommandView[])[]): CommandPattern[]
}

/** Indexes patterns by name, so that a command meets only the few that could concern it. */
export function createPatternSet(patterns: readonly CommandPattern[]): PatternSet {
  const byName = new Map<string, CommandPattern[]>()
  const byGlob: CommandPattern[] = []
  for (const pattern of patterns.filter((p) => p.stages.length === 1)) {
    const names = pattern.stages[0]?.names ?? []
    if (names.some((name) => name.includes('*'))) byGlob.push(pattern)
    else for (const name of names) byName.set(name, [...(byName.get(name) ?? []), pattern])
  }
  const pipelines = patterns.filter((pattern) => pattern.stages.length > 1)
  return {
    ofCommand: (view) =>
      [...(byName.get(view.name) ?? []), ...byGlob].filter(
        ({ stages: [stage] }) => stage && fits(stage, view),
      ),
    ofPipeline: (stages) => pipelines.filter((pattern) => fitsInOrder(pattern.stages, stages)),
  }
}

/** Whether each stage of the pattern is met, in order, by a stage of the pipeline. */
function fitsInOrder(wanted: readonly StageMatcher[], stages: readonly (readonly CommandView[])[]): boolean {
  let next = 0
  for (const views of stages) {
    const stage = wanted[next]
    if (stage && views.some((view) => fits(stage, view))) next++
  }
  return next === wanted.length
}

function fits(stage: StageMatcher, view: CommandView): boolean {
  if (!stage.names.some((name) => matchesGlob(name, view.name))) return false
  let operand = 0
  return stage.words.every((word) => {
    if (word.kind !== 'operand') return carries(view, word)
    while (operand < view.operands.length) {
      if (matchesAny(word.anyOf, view.operands[operand++] ?? '')) return true
    }
    return false
  })
}

function carries(view: CommandView, word: Exclude<WordMatcher, { kind: 'operand' }>): boolean {
  switch (word.kind) {
    case 'flag':
      return view.hasUnknownFlags || word.anyOf.some((flag) => carriesFlag(view, flag))
    case 'output':
      return view.outputs.some((target) => matchesAny(word.anyOf, target))
    case 'input':
      return view.inputs.some((source) => matchesAny(word.anyOf, source))
    case 'stdin':
      return view.readsProgram
    case 'substitution':
      return view.hasSubstitution
  }
}

/** Long flags may be cut short (`--recurs`), as the C library's parser lets them. */
function carriesFlag(view: CommandView, flag: string): boolean {
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
