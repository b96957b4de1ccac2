import type { CommandPattern } from '../../../policies/agent/command-pattern.ts'
import { MAX_SCRIPT_DEPTH } from './bounds.ts'
import { readScript, type SimpleCommand } from './commands.ts'
import type { ShellGrammar } from './grammar.ts'
import { innerScripts } from './inner-scripts.ts'
import type { PatternSet } from './match.ts'
import { type CommandView, isUnknownName, nameOf, viewOf } from './view.ts'
import type { Word } from './words.ts'
import { unwrap } from './wrappers.ts'

/** What the text of a command shows before it runs. */
export interface ShellJudgement {
  /** Patterns that it has the form of, per set, without repetition. */
  readonly destructive: readonly CommandPattern[]
  readonly network: readonly CommandPattern[]
  /** Why the text does not show all that will run. */
  readonly doubts: readonly string[]
  /** Every word, for those who look for names of files. */
  readonly words: readonly string[]
}

export interface PatternSets {
  readonly destructive: PatternSet
  readonly network: PatternSet
}

/** Reads a command with everything inside it: substitutions, wrapped commands, scripts in its words. */
export function judgeShell(command: string, grammar: ShellGrammar, sets: PatternSets): ShellJudgement {
  const judge = new Judge(grammar, sets)
  judge.script(command, 0)
  return {
    destructive: [...judge.destructive],
    network: [...judge.network],
    doubts: [...judge.doubts],
    words: judge.words,
  }
}

class Judge {
  readonly destructive = new Set<CommandPattern>()
  readonly network = new Set<CommandPattern>()
  readonly doubts = new Set<string>()
  readonly words: string[] = []
  readonly #grammar: ShellGrammar
  readonly #sets: PatternSets

  constructor(grammar: ShellGrammar, sets: PatternSets) {
    this.#grammar = grammar
    this.#sets = sets
  }

  script(text: string, depth: number): void {
    if (depth > MAX_SCRIPT_DEPTH) {
      this.#doubt('scripts are nested too deeply')
      return
    }
    this.#read(text, depth)
    // The grammar takes a joined line for two words; comments are not joined, so both readings count.
    if (text.includes('\\\n')) this.#read(text.replaceAll('\\\n', ''), depth)
  }

  #read(text: string, depth: number): void {
    const parsed = this.#grammar.parse(text)
    if (!parsed.ok) {
      this.#doubt(parsed.reason)
      return
    }
    const reading = readScript(parsed.root, text)
    if (reading.isTooLarge) {
      this.#doubt('it has too many commands')
      return
    }
    const views = new Map(reading.commands.map((command) => [command, this.#command(command, depth)]))
    for (const stages of reading.pipelines) {
      const viewed = stages.map((stage) => stage.flatMap((command) => views.get(command) ?? []))
      this.#add((set) => set.ofPipeline(viewed))
    }
    if (reading.hasHiddenPart) this.#doubt('a substitution in it cannot be read')
    for (const script of reading.scripts) this.script(script, depth + 1)
  }

  /** Judges a command and what it wraps; answers how each of them looks to a pipeline's patterns. */
  #command(command: SimpleCommand, depth: number): CommandView[] {
    const views: CommandView[] = []
    const pending: (readonly Word[])[] = [command.words]
    const { head, commands } = unwrapAll(command.words)
    if (isUnknownName(command.words[0]) || isUnknownName(head)) {
      this.#doubt('the name of a command is not known before it runs')
    }
    pending.push(...commands)
    for (const words of pending) {
      const view = viewOf(words, command)
      views.push(view)
      this.#add((set) => set.ofCommand(view))
      if (view.name === 'eval') this.#doubt('eval builds a command while it runs')
      for (const script of innerScripts(view, words, command)) this.#innerScript(script, depth)
    }
    for (const word of command.words) this.words.push(word.text)
    this.words.push(...command.inputs)
    return views
  }

  #innerScript(script: Word, depth: number): void {
    if (script.isUnknown) this.#doubt('a script inside it is not known before it runs')
    else this.script(script.text, depth + 1)
  }

  #add(find: (set: PatternSet) => CommandPattern[]): void {
    for (const pattern of find(this.#sets.destructive)) this.destructive.add(pattern)
    for (const pattern of find(this.#sets.network)) this.network.add(pattern)
  }

  #doubt(reason: string): void {
    this.doubts.add(reason)
  }
}

/** The wrapped commands of a command and, wrapper after wrapper, the word that is run in the end. */
function unwrapAll(words: readonly Word[]): {
  head: Word | undefined
  commands: readonly (readonly Word[])[]
} {
  const first = unwrap(nameOf(words), words)
  let head = first.head
  let rest = words
  for (let level = 0; head !== undefined && level < MAX_SCRIPT_DEPTH; level++) {
    rest = rest.slice(rest.indexOf(head))
    const next = unwrap(nameOf(rest), rest)
    if (next.head === undefined) break
    head = next.head
  }
  const found =
    nameOf(words) === 'find' ? first.commands.flatMap((c) => [c, ...unwrapAll(c).commands]) : first.commands
  return { head, commands: found }
}
