import type { CommandShell } from '../../../contracts/exec.ts'
import type { CommandPattern } from '../../../policies/agent/command-pattern.ts'
import { MAX_CALLS, MAX_SCRIPT_DEPTH, MAX_SCRIPTS } from './bounds.ts'
import { commandsInCode, commandsInFile, commandsInFlags } from './code.ts'
import { readScript, type ScriptReading, type SimpleCommand } from './commands.ts'
import { differencesOf, isCommandElsewhere } from './dialect.ts'
import type { ShellGrammar, ShellNode } from './grammar.ts'
import { type InnerScript, innerScripts, runsHiddenProgram, scriptFilesOf } from './inner-scripts.ts'
import { OUTSIDE, UNKNOWN, WORDS } from './marks.ts'
import type { PatternSet } from './match.ts'
import { NO_REDIRECTS } from './redirects.ts'
import { NO_PARAMETERS, type Positional, UNKNOWN_PARAMETERS, Variables } from './variables.ts'
import { type CommandView, isUnknownName, nameOf, viewOf } from './view.ts'
import { type Word, wordOf } from './words.ts'
import { unwrap } from './wrappers.ts'
import { WrittenFiles } from './written-files.ts'

/** The result of analysing a command's text. */
export interface ShellJudgement {
  /** Matching patterns, without duplicates. */
  readonly destructive: readonly CommandPattern[]
  readonly network: readonly CommandPattern[]
  /** Reasons why the text does not show everything that will run. */
  readonly doubts: readonly string[]
  /** Every word, for rules that look for file names. */
  readonly words: readonly string[]
}

export interface PatternSets {
  readonly destructive: PatternSet
  readonly network: PatternSet
  /**
   * `plain`: commands that print only paths, numbers or names. `filters`: commands that may follow them in a
   * pipeline.
   */
  readonly plain: PatternSet
  readonly filters: PatternSet
}

export interface ShellReader {
  readonly grammar: ShellGrammar
  readonly sets: PatternSets
  /**
   * The shell that will run the command. If undefined, every construct that shells read differently needs
   * approval.
   */
  readonly shell?: CommandShell | undefined
}

/** Maximum number of passes over a command line to collect the values of its variables. */
const MAX_READINGS = 3

/** Analyses a command with everything inside it: substitutions, wrapped commands, and scripts in its words. */
export function judgeShell(command: string, reader: ShellReader): ShellJudgement {
  const variables = new Variables()
  let judge = new Judge(reader, variables)
  judge.judge(command, reader.shell ?? 'sh')
  for (let times = 1; variables.changedAfterRead && times < MAX_READINGS; times++) {
    variables.changedAfterRead = false
    judge = new Judge(reader, variables)
    judge.judge(command, reader.shell ?? 'sh')
  }
  return {
    destructive: [...judge.destructive],
    network: [...judge.network],
    doubts: [...judge.doubts],
    words: judge.words,
  }
}

/** The context in which a script is read. */
interface Place {
  readonly depth: number
  readonly shell: CommandShell
  readonly positional: Positional
  /** Whether the script may never run. Parts of it that cannot be read are then no reason to ask. */
  readonly isGuess: boolean
}

type Wrapping = Place & { readonly seen: Set<string> }

type Function = { readonly body: ShellNode; readonly source: string; isCalled: boolean }

class Judge {
  readonly destructive = new Set<CommandPattern>()
  readonly network = new Set<CommandPattern>()
  readonly doubts = new Set<string>()
  readonly words: string[] = []
  readonly #grammar: ShellGrammar
  readonly #sets: PatternSets
  readonly #variables: Variables
  readonly #functions = new Map<string, Function[]>()
  readonly #calls = new Set<string>()
  readonly #files = new WrittenFiles()
  #scripts = 0

  constructor({ grammar, sets }: ShellReader, variables: Variables) {
    this.#variables = variables
    this.#grammar = grammar
    this.#sets = sets
  }

  judge(command: string, shell: CommandShell): void {
    this.#script(command, { depth: 0, shell, positional: NO_PARAMETERS, isGuess: false })
    const place: Place = { depth: 1, shell, positional: UNKNOWN_PARAMETERS, isGuess: true }
    for (const { body, source, isCalled } of [...this.#functions.values()].flat())
      if (!isCalled) this.#tree(body, source, place)
  }

  #script(text: string, place: Place): void {
    if (place.depth > MAX_SCRIPT_DEPTH || ++this.#scripts > MAX_SCRIPTS) {
      this.#doubt('scripts are nested too deeply', place)
      return
    }
    this.#read(text, place)
    // The grammar splits a word at a line continuation, and a continuation does not join comments. Both
    // readings are judged.
    if (text.includes('\\\n')) this.#read(text.replaceAll('\\\n', ''), place)
  }

  #read(text: string, place: Place): void {
    const parsed = this.#grammar.parse(text)
    if (!parsed.ok) {
      this.#doubt(parsed.reason, place)
      return
    }
    const { root, source } = parsed
    if (place.shell !== 'bash') {
      const different = [...differencesOf(root, source)]
      if (different.length > 0)
        this.#doubt(`bash and other shells read it differently (${different.slice(0, 3).join(', ')})`, place)
    } else if (isCommandElsewhere(root, source)) {
      this.#doubt('another shell than bash would run a part of it as a command', place)
    }
    this.#tree(root, source, place)
  }

  #tree(root: ShellNode, source: string, place: Place): CommandView[] {
    const reading = readScript(root, {
      source,
      variables: this.#variables,
      positional: place.positional,
      isPlain: (stages) => this.#isPlain(stages),
    })
    if (reading.isTooLarge) {
      this.#doubt('it has too many commands', place)
      return []
    }
    for (const [name, body] of reading.functions) this.#define(name, body, source)
    return this.#reading(reading, place)
  }

  /** A function can be defined more than once; every body is judged. */
  #define(name: string, body: ShellNode, source: string): void {
    const known = this.#functions.get(name) ?? []
    if (known.some((one) => one.source === source && one.body.start === body.start)) return
    this.#functions.set(name, [...known, { body, source, isCalled: false }])
  }

  /**
   * bash expands aliases only with `expand_aliases`. Aliases are judged as functions anyway, because a script
   * may set that option.
   */
  #defineAlias(definition: string): void {
    const [, name, value] = /^([^=]+)=([\s\S]+)$/.exec(definition) ?? []
    const parsed = value === undefined ? undefined : this.#grammar.parse(`${value} "$@"`)
    if (name && parsed?.ok) this.#define(name, parsed.root, parsed.source)
  }

  #reading(reading: ScriptReading, around: Place): CommandView[] {
    const place = { ...around, positional: reading.positional }
    for (const command of reading.commands) this.#files.note(command)
    const views = new Map(reading.commands.map((command) => [command, this.#command(command, place)]))
    for (const stages of reading.pipelines) {
      const viewed = stages.map((stage) => stage.flatMap((command) => views.get(command) ?? []))
      this.#add((set) => set.ofPipeline(viewed))
    }
    for (const { name, value, isExported } of reading.assignments)
      this.#assigned({ name, value, isExported }, place)
    if (reading.hasHiddenPart) this.#doubt('a part of it cannot be read', place)
    for (const script of reading.scripts) this.#script(script, deeper(place))
    return [...views.values()].flat()
  }

  /** Judges a variable that changes which commands a shell runs, or whose value a program may run. */
  #assigned({ name, value, isExported }: ScriptReading['assignments'][number], place: Place): void {
    const view = viewOf([wordOf(`${name}=${value}`)], { words: [], ...NO_REDIRECTS })
    this.#add((set) => set.ofCommand({ ...view, name: `${name}=${value}`.toLowerCase() }))
    if (isExported && /\s/.test(value)) this.#script(value, guess(place))
    if (HAS_SUBSTITUTION.test(value)) this.#script(expanded(value), guess(place))
  }

  /** Judges a command and the commands that it wraps. Returns a view of each, for pipeline patterns. */
  #command(command: SimpleCommand, place: Place): CommandView[] {
    for (const word of command.words) this.words.push(word.text)
    this.words.push(...command.inputs)
    if (isUnknownName(command.words[0])) this.#doubtName(place)
    if (nameOf(command.words) === 'alias') for (const { text } of command.words) this.#defineAlias(text)
    return this.#wrapped(command.words, command, { ...place, seen: new Set() })
  }

  /** `seen` holds the word lists judged so far, because every later word may be tried as the start of a command. */
  #wrapped(words: readonly Word[], command: SimpleCommand, place: Wrapping): CommandView[] {
    const key = words.map(({ text }) => text).join('\0')
    if (place.seen.has(key)) return []
    place.seen.add(key)
    const view = viewOf(words, command)
    this.#add((set) => set.ofCommand(view))
    if (runsHiddenProgram(view, words))
      this.#doubt('a script that it runs is not known before it runs', place)
    for (const inner of innerScripts(words, command, place.shell)) this.#innerScript(inner, place)
    this.#guesses(words, command, place)
    this.#runFile(words, command, place)
    const called = this.#call(words, place)
    const { commands, scripts, guesses = [], head } = unwrap(words, command)
    if (isUnknownName(head)) this.#doubtName(place)
    for (const script of scripts) this.#innerScript({ script, shell: 'sh' }, place)
    for (const { text } of guesses) this.#script(text, guess(place))
    if (place.depth >= MAX_SCRIPT_DEPTH) return [view, ...called]
    const inner = commands.flatMap((wrapped) =>
      this.#wrapped(wrapped, command, { ...deeper(place), seen: place.seen }),
    )
    return [view, ...called, ...inner]
  }

  #innerScript({ script, shell, positional, isGuess }: InnerScript, around: Place): void {
    const place = isGuess ? guess(around) : deeper(around)
    if (IS_HIDDEN.test(script.text)) this.#doubt('a script inside it is not known before it runs', place)
    this.#script(script.text, { ...place, shell, positional: positional ?? place.positional })
  }

  /** Judges text that might run: by a program in another language, by git, or in an arithmetic expression. */
  #guesses(words: readonly Word[], command: SimpleCommand, place: Place): void {
    const texts = words.map(({ text }) => text)
    const name = nameOf(words)
    const settings = name === 'git' ? texts.filter((_text, i) => texts[i - 1] === '-c') : []
    const subscripts = EVALUATES_SUBSCRIPTS.test(name)
      ? texts.filter((text) => HAS_SUBSTITUTION.test(text))
      : []
    const guesses = [
      ...commandsInCode(words, command),
      ...commandsInFlags(words),
      ...settings.map((text) => text.replace(/^[^=]*=!?/, '')),
      ...subscripts.map(expanded),
    ]
    for (const text of guesses) this.#script(text, guess(place))
  }

  /** A file that the same command line writes and then runs is judged as a script. */
  #runFile(words: readonly Word[], command: SimpleCommand, place: Place): void {
    for (const { path, shell } of scriptFilesOf(words, command, place.shell)) {
      const { texts, isFetched } = this.#files.read(path)
      if (isFetched) this.#doubt('it runs a file that it has fetched', place)
      for (const text of texts) this.#script(text, { ...deeper(place), shell })
    }
    const documents = words.slice(1).flatMap(({ text }) => this.#files.read(text).texts)
    if (documents.length === 0) return
    for (const text of documents.flatMap((document) => commandsInFile(nameOf(words), document)))
      this.#script(text, guess(place))
    const view = viewOf(words, { words, ...NO_REDIRECTS, documents })
    this.#add((set) => set.ofCommand(view))
  }

  /** Judges the body of a function with the arguments of each call. */
  #call(words: readonly Word[], place: Place): CommandView[] {
    const [name, ...args] = words.map(({ text }) => text)
    return (this.#functions.get(name ?? '') ?? []).flatMap((called) => this.#callOne(called, args, place))
  }

  #callOne(called: Function, args: readonly string[], place: Place): CommandView[] {
    called.isCalled = true
    const key = JSON.stringify([called.source, called.body.start, ...args])
    if (this.#calls.has(key)) return []
    this.#calls.add(key)
    if (this.#calls.size > MAX_CALLS || place.depth >= MAX_SCRIPT_DEPTH) {
      this.#doubt('functions are nested too deeply', place)
      return []
    }
    const positional = { lists: [args], zero: place.positional.zero }
    return this.#tree(called.body, called.source, { ...deeper(place), positional })
  }

  #isPlain(stages: readonly SimpleCommand[]): boolean {
    return stages.every((command, i) => {
      const set = i === 0 ? this.#sets.plain : this.#sets.filters
      return (
        !this.#functions.has(command.words[0]?.text ?? '') &&
        set.ofCommand(viewOf(command.words, command)).length > 0
      )
    })
  }

  #add(find: (set: PatternSet) => CommandPattern[]): void {
    for (const pattern of find(this.#sets.destructive)) this.destructive.add(pattern)
    for (const pattern of find(this.#sets.network)) this.network.add(pattern)
  }

  #doubtName(place: Place): void {
    this.#doubt('the name of a command is not known before it runs', place)
  }

  #doubt(reason: string, { isGuess }: Place): void {
    if (!isGuess) this.doubts.add(reason)
  }
}

/** Builtins that evaluate the subscript in a variable name. */
const EVALUATES_SUBSCRIPTS =
  /^(?:compgen|complete|printf|read|test|\[|unset|declare|typeset|local|export|readonly|let|mapfile)$/

/** The script is wholly unknown, or contains text that the script itself computes. */
const IS_HIDDEN = new RegExp(`[${UNKNOWN}${WORDS}]|^[\\s${OUTSIDE}]+$`)
const HAS_SUBSTITUTION = /\$\(|`/
/** A script that expands the text. */
const expanded = (text: string) => `: "${text.replaceAll('"', '\\"')}"`

const deeper = (place: Place): Place => ({ ...place, depth: place.depth + 1 })
const guess = (place: Place): Place => ({ ...deeper(place), isGuess: true })
