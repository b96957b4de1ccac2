import { MAX_COMMANDS } from './bounds.ts'
import { type Feed, writtenBy } from './feed.ts'
import type { ShellNode } from './grammar.ts'
import { isMisread } from './hidden-parts.ts'
import { SPLIT, UNKNOWN, WORDS } from './marks.ts'
import { NO_REDIRECTS, type Redirects, redirectsOf, wordsIn } from './redirects.ts'
import { scriptsInText } from './scripts-in-text.ts'
import { parametersSetBy, variablesSetBy } from './setters.ts'
import type { Positional, Scope, Variables } from './variables.ts'
import { expand, textsOf, type Word, wordOf, wordsOf } from './words.ts'

/** A simple command in one possible expansion of its words, with its redirections. */
export interface SimpleCommand extends Redirects {
  readonly words: readonly Word[]
  /** The output of the previous pipeline stage. Undefined for a first stage. */
  readonly feed?: Feed | undefined
}

export interface Assignment {
  readonly name: string
  readonly value: string
  /** Whether programs inherit the variable: `export X=…`, `X=… program`. */
  readonly isExported: boolean
}

/** Everything found in a script, in the order of its text. */
export interface ScriptReading {
  readonly commands: readonly SimpleCommand[]
  /** The stages of each pipeline. Each stage lists the commands inside it. */
  readonly pipelines: readonly (readonly (readonly SimpleCommand[])[])[]
  readonly assignments: readonly Assignment[]
  /** The positional parameters at the end of the script. */
  readonly positional: Positional
  readonly functions: readonly (readonly [name: string, body: ShellNode])[]
  /** Scripts that the grammar returns as plain text: in escaped backquotes and in here-documents. */
  readonly scripts: readonly string[]
  /** Whether the grammar left a part of the script unparsed or dropped it. */
  readonly hasHiddenPart: boolean
  readonly isTooLarge: boolean
}

export interface ReaderOptions {
  readonly source: string
  /** Shared by all scripts of one command line, because one script may use a variable that another one sets. */
  readonly variables: Variables
  readonly positional: Positional
  /** Returns whether a pipeline prints only paths, numbers or names. */
  readonly isPlain: (stages: readonly SimpleCommand[]) => boolean
}

/** Collects every command in a syntax tree, at any depth. */
export function readScript(root: ShellNode, options: ReaderOptions): ScriptReading {
  const reader = new ScriptReader(options)
  reader.visit(root, NO_REDIRECTS)
  if (!reader.setsParameters) return reader
  // In a loop, `set --` further down takes effect before the next iteration, so the script is read again with
  // its parameters.
  const again = new ScriptReader({ ...options, positional: reader.positional })
  again.visit(root, NO_REDIRECTS)
  return again
}

/** Maximum number of expansions per command. */
const MAX_VARIANTS = 16

class ScriptReader implements ScriptReading {
  readonly commands: SimpleCommand[] = []
  readonly pipelines: SimpleCommand[][][] = []
  readonly assignments: Assignment[] = []
  readonly functions: [string, ShellNode][] = []
  readonly scripts: string[] = []
  hasHiddenPart = false
  setsParameters = false
  readonly #scope: Scope
  readonly #isPlainPipeline: ReaderOptions['isPlain']
  /** Words that the grammar attaches to a redirection, by the command that they belong to. */
  readonly #trailing = new Map<ShellNode, readonly ShellNode[]>()

  constructor({ source, variables, positional, isPlain }: ReaderOptions) {
    this.#isPlainPipeline = isPlain
    this.#scope = {
      source,
      variables,
      positional,
      isShifted: /\bshift\b/.test(source),
      isPlain: (node) => this.#isPlain(node),
      expand,
    }
  }

  get positional(): Positional {
    return this.#scope.positional
  }

  get isTooLarge(): boolean {
    return this.commands.length > MAX_COMMANDS
  }

  visit(node: ShellNode, redirects: Redirects): void {
    if (this.isTooLarge) return
    switch (node.type) {
      case 'command':
      case 'declaration_command':
      case 'unset_command':
        this.#visitCommand(node, redirects)
        return
      case 'redirected_statement':
        this.#visitRedirected(node, redirects)
        return
      case 'pipeline':
        this.pipelines.push(this.#stages(node, redirects))
        return
      case 'function_definition':
        this.#defineFunction(node)
        return
      case 'variable_assignment':
        this.#assign(node, false)
        break
      case 'c_style_for_statement':
        this.#visitArithmeticLoop(node, redirects)
        return
      case 'for_statement':
        this.#assignLoop(node)
        break
    }
    this.#visitChildren(node, redirects)
  }

  #visitChildren(node: ShellNode, redirects: Redirects): void {
    this.#look(node)
    for (const child of node.children) this.visit(child, redirects)
  }

  /** `for ((i = 0; …))` allows blanks around the assignment operator. */
  #visitArithmeticLoop(node: ShellNode, redirects: Redirects): void {
    this.#look(node)
    for (const child of node.children) {
      if (child.type !== 'variable_assignment') this.visit(child, redirects)
      else {
        this.#assign(child, false)
        for (const part of child.children) this.visit(part, redirects)
      }
    }
  }

  #visitCommand(node: ShellNode, outer: Redirects): void {
    const own = redirectsOf(node.children, outer, this.#scope)
    const parts = [...node.children, ...(this.#trailing.get(node) ?? [])]
    const isDeclaration = node.type === 'declaration_command'
    const isExported = !isDeclaration || /^(?:export|declare|typeset)$/.test(node.children[0]?.type ?? '')
    for (const child of parts) if (child.type === 'variable_assignment') this.#assign(child, isExported)
    const words = joinTouching(parts)
      .filter((child) => !this.#isDescriptor(child))
      .flatMap((child) => (isRedirect(child) ? wordsIn(child, this.#scope.source) : child))
      .filter((child) => isWordOf(child, isDeclaration))
      .map((child) => wordsOf(child, this.#scope))
    const commands = variantsOf(words).map((variant) => ({ words: variant, ...own }))
    for (const command of commands) this.#noteSetters(command.words)
    this.commands.push(...commands)
    this.#look(node)
    for (const child of parts) this.#visitInside(child, commands)
  }

  /** `{name}` before a redirection is not a word of the command. */
  #isDescriptor(node: ShellNode): boolean {
    return /^\{\w+\}$/.test(this.#text(node)) && /[<>]/.test(this.#scope.source.charAt(node.end))
  }

  /** Commands inside a word also run. Commands inside `>(…)` read the output of the surrounding command. */
  #visitInside(node: ShellNode, commands: readonly SimpleCommand[]): void {
    const before = this.commands.length
    if (node.type === 'variable_assignment') this.#visitChildren(node, NO_REDIRECTS)
    else this.visit(node, NO_REDIRECTS)
    const isSink = node.type === 'process_substitution' && this.#scope.source[node.start] === '>'
    if (isSink) this.pipelines.push([[...commands], this.commands.slice(before)])
  }

  #visitRedirected(node: ShellNode, outer: Redirects): void {
    const redirects = redirectsOf(node.children, outer, this.#scope)
    const before = this.commands.length
    const [body, ...rest] = node.children.filter((child) => !isRedirect(child))
    const behind = node.children.filter(isRedirect).flatMap((child) => wordsIn(child, this.#scope.source))
    const last = body && lastCommandOf(body)
    if (last && behind.length > 0) this.#trailing.set(last, behind)
    else if (behind.length > 0) this.#addWords(behind, redirects)
    for (const child of [...(body ? [body] : []), ...rest]) this.visit(child, redirects)
    if (this.commands.length === before) this.commands.push({ words: [], ...redirects })
    const commands = this.commands.slice(before)
    this.#look(node)
    for (const child of node.children.filter(isRedirect)) this.#visitRedirect(child, commands)
  }

  #addWords(nodes: readonly ShellNode[], redirects: Redirects): void {
    const words = nodes.map((node) => wordsOf(node, this.#scope))
    this.commands.push(...variantsOf(words).map((variant) => ({ words: variant, ...redirects })))
  }

  /**
   * The line of a here-document can continue with a pipe. The grammar puts that pipeline inside the
   * redirection.
   */
  #visitRedirect(node: ShellNode, body: SimpleCommand[]): void {
    this.#look(node)
    for (const child of node.children) {
      if (child.type !== 'pipeline') this.visit(child, NO_REDIRECTS)
      else this.pipelines.push([body, ...this.#stages(child, NO_REDIRECTS, body)])
    }
  }

  #stages(node: ShellNode, redirects: Redirects, first?: readonly SimpleCommand[]): SimpleCommand[][] {
    const stages: (readonly SimpleCommand[])[] = first ? [first] : []
    const nodes = node.children.filter(({ type }) => type !== '|' && type !== '|&')
    this.#look(node)
    const own = nodes.map((child) => {
      const before = this.commands.length
      this.visit(child, redirects)
      const feed = stages.length > 0 ? this.#feedOf(stages) : undefined
      for (let i = before; i < this.commands.length; i++)
        this.commands[i] = { ...(this.commands[i] as SimpleCommand), feed }
      const stage = this.commands.slice(before)
      stages.push(stage)
      return stage
    })
    return own
  }

  /** The output of the last stage. */
  #feedOf(stages: readonly (readonly SimpleCommand[])[]): Feed {
    const last = stages.at(-1) ?? []
    const text = last.length === 1 && last[0] ? writtenBy(last[0]) : undefined
    if (text !== undefined) return { kind: 'text', text }
    const single = stages.every((stage) => stage.length === 1)
    return { kind: single && this.#isPlainPipeline(stages.flat()) ? 'plain' : 'unknown' }
  }

  /** Whether `$(…)` prints only paths, numbers or names. */
  #isPlain(substitution: ShellNode): boolean {
    const inside = substitution.children.filter(({ type }) => !/^(?:\$\(|\)|`|comment)$/.test(type))
    if (inside.length !== 1) return false
    const nodes = inside
      .flatMap(withoutRedirect)
      .flatMap((node) =>
        node.type === 'pipeline'
          ? node.children.filter(({ type }) => type !== '|').flatMap(withoutRedirect)
          : [node],
      )
    if (!nodes.every(({ type }) => type === 'command')) return false
    const stages = nodes.map((node) => {
      const words = node.children.filter((child) => isWordOf(child, false))
      return variantsOf(words.map((word) => wordsOf(word, this.#scope)))
    })
    return (
      stages.every(({ length }) => length === 1) &&
      this.#isPlainPipeline(stages.flat().map((words) => ({ words, ...NO_REDIRECTS })))
    )
  }

  #defineFunction(node: ShellNode): void {
    const name = node.children.find(({ type }) => type === 'word')
    const body = node.children.find(({ type }) => type !== 'word' && !/^(?:function|\(|\))$/.test(type))
    this.#look(node)
    if (name && body) this.functions.push([this.#text(name), body])
  }

  #assign(node: ShellNode, isExported: boolean): void {
    const [target, operator, value] = node.children
    const name = target && this.#text(target).replace(/\[.*/s, '')
    if (!name) return
    const texts = value ? textsOf(value, this.#scope) : ['']
    const { variables } = this.#scope
    const isAppended = operator?.type === '+=' || target.type === 'subscript'
    const separator = value?.type === 'array' || target.type === 'subscript' ? SPLIT : ''
    const before = (isAppended && variables.get(name)) || []
    const appended = before.flatMap((old) => texts.map((text) => old + separator + text))
    this.#remember(name, [...texts, ...appended])
    for (const text of texts) this.assignments.push({ name, value: text, isExported })
  }

  #assignLoop(node: ShellNode): void {
    const name = node.children.find((child) => child.type === 'variable_name')
    if (!name) return
    const nodes = node.children.filter((child) => !NOT_A_LOOP_VALUE.test(child.type))
    const isOverParameters = !node.children.some(({ type }) => type === 'in')
    const { lists } = this.#scope.positional
    const parameters = isOverParameters ? (lists?.flat() ?? [UNKNOWN]) : []
    const words = nodes.flatMap((value) =>
      wordsOf(value, this.#scope)
        .flat()
        .map((word) => word.text),
    )
    // In each iteration the loop variable holds exactly one word.
    this.#remember(
      this.#text(name),
      [...words, ...parameters].map((word) => word.replaceAll(WORDS, UNKNOWN)),
    )
  }

  /** Handles commands that set variables, and `set --`, which sets the positional parameters. */
  #noteSetters(words: readonly Word[]): void {
    const [name, ...args] = words.map(({ text }) => text)
    for (const [variable, value] of variablesSetBy(name ?? '', args)) this.#remember(variable, [value])
    const values = name === 'set' ? parametersSetBy(args) : undefined
    if (values) {
      const { positional } = this.#scope
      const lists = positional.lists && [...positional.lists, values].slice(-MAX_VARIANTS)
      this.#scope.positional = { ...positional, lists }
      this.setsParameters = true
    }
  }

  #remember(name: string, values: readonly string[]): void {
    this.#scope.variables.assign(name, values)
  }

  /** Records scripts that the node holds as text, and nodes that the grammar misread. Ignores the children. */
  #look(node: ShellNode): void {
    const scripts = scriptsInText(node, this.#scope.source)
    if (scripts) this.scripts.push(...scripts)
    this.hasHiddenPart ||= scripts === undefined || isMisread(node, this.#scope.source)
  }

  #text = (node: ShellNode): string => this.#scope.source.slice(node.start, node.end)
}

const isRedirect = ({ type }: ShellNode) => type.endsWith('_redirect')
const NOT_A_WORD = /_redirect$|^\$$|^[<>&|;]/
const NOT_A_LOOP_VALUE = /^(?:for|select|in|;|do_group|variable_name|compound_statement|\n)$/

const isWordOf = (child: ShellNode, isDeclaration: boolean): boolean =>
  !NOT_A_WORD.test(child.type) && (isDeclaration || child.type !== 'variable_assignment')

const withoutRedirect = (node: ShellNode): readonly ShellNode[] =>
  node.type === 'redirected_statement' ? node.children.filter((child) => !isRedirect(child)) : [node]

/** Joins parts of one word that the grammar splits into two words: `a\`b\``. */
function joinTouching(nodes: readonly ShellNode[]): ShellNode[] {
  const joined: ShellNode[] = []
  for (const node of nodes) {
    const before = joined.at(-1)
    const touches = before?.end === node.start && isWordOf(before, false) && isWordOf(node, false)
    if (before && touches)
      joined[joined.length - 1] = {
        type: 'concatenation',
        start: before.start,
        end: node.end,
        children: [before, node],
      }
    else joined.push(node)
  }
  return joined
}

/** The last simple command of a statement. Words after a redirection belong to it. */
function lastCommandOf(node: ShellNode): ShellNode | undefined {
  if (/^(?:command|declaration_command|unset_command)$/.test(node.type)) return node
  if (!/^(?:list|negated_command|pipeline|redirected_statement)$/.test(node.type)) return undefined
  const last = node.children.findLast((child) => !isRedirect(child))
  return last && lastCommandOf(last)
}

/** All combinations of one expansion per word. */
function variantsOf(words: readonly Word[][][]): Word[][] {
  let variants: Word[][] = [[]]
  for (const alternatives of words) {
    const isMany = variants.length * alternatives.length > MAX_VARIANTS
    const chosen = isMany ? [[wordOf(WORDS)]] : alternatives
    variants = variants.flatMap((before) => chosen.map((after) => [...before, ...after]))
  }
  return variants
}
