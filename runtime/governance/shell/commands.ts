import { MAX_COMMANDS } from './bounds.ts'
import type { ShellNode } from './grammar.ts'
import { documentOf, isExpandedDocument, NO_REDIRECTS, type Redirects, redirectsOf } from './redirects.ts'
import { backquotedScripts, unescapeBackquoted } from './unquote.ts'
import { newVariables, type Scope, textOf, UNKNOWN, type Word, wordsOf } from './words.ts'

/** A simple command: its words, where its output goes, and what it is given to read. */
export interface SimpleCommand extends Redirects {
  readonly words: readonly Word[]
}

/** What a script says, in the order in which it is written. */
export interface ScriptReading {
  readonly commands: readonly SimpleCommand[]
  /** The stages of each pipeline, each with the commands inside it. */
  readonly pipelines: readonly (readonly (readonly SimpleCommand[])[])[]
  /** Scripts in backquotes that the grammar leaves as text: escaped ones, and those in here-documents. */
  readonly scripts: readonly string[]
  /** A substitution that the grammar did not take apart. */
  readonly hasHiddenPart: boolean
  readonly isTooLarge: boolean
}

/** Collects every command of a syntax tree, wherever it stands. */
export function readScript(root: ShellNode, source: string): ScriptReading {
  const reader = new ScriptReader(source)
  reader.visit(root, NO_REDIRECTS)
  return {
    commands: reader.commands,
    pipelines: reader.pipelines,
    scripts: reader.scripts,
    hasHiddenPart: reader.hasHiddenPart,
    isTooLarge: reader.commands.length > MAX_COMMANDS,
  }
}

class ScriptReader {
  readonly commands: SimpleCommand[] = []
  readonly pipelines: SimpleCommand[][][] = []
  readonly scripts: string[] = []
  hasHiddenPart = false
  readonly #scope: Scope

  constructor(source: string) {
    this.#scope = { source, variables: newVariables() }
  }

  visit(node: ShellNode, redirects: Redirects): void {
    if (this.commands.length > MAX_COMMANDS) return
    switch (node.type) {
      case 'command':
        this.#visitCommand(node, redirects)
        return
      case 'redirected_statement':
        this.#visitRedirected(node, redirects)
        return
      case 'pipeline':
        this.pipelines.push(this.#stages(node, redirects))
        return
      case 'variable_assignment':
        this.#assign(node)
        break
      case 'for_statement':
        this.#assignLoop(node)
        break
      case 'command_substitution':
        this.#keepBackquotes(node)
        break
    }
    if (node.children.length === 0 && !LITERAL.test(node.type)) this.#keepHidden(this.#text(node))
    for (const child of node.children) this.visit(child, redirects)
  }

  #visitCommand(node: ShellNode, outer: Redirects): void {
    const words: Word[] = []
    const own = redirectsOf(node.children, outer, this.#scope)
    for (const child of node.children) {
      if (child.type === 'variable_assignment') this.#assign(child)
      else if (!NOT_A_WORD.test(child.type)) words.push(...wordsOf(child, this.#scope))
    }
    const command = { words, ...own }
    this.commands.push(command)
    for (const child of node.children) this.#visitInside(child, command)
  }

  /** Commands inside a word run too; inside `>(…)` they read what the command around them writes. */
  #visitInside(node: ShellNode, command: SimpleCommand): void {
    const before = this.commands.length
    this.visit(node, NO_REDIRECTS)
    const isSink = node.type === 'process_substitution' && this.#scope.source[node.start] === '>'
    if (isSink) this.pipelines.push([[command], this.commands.slice(before)])
  }

  #visitRedirected(node: ShellNode, outer: Redirects): void {
    const redirects = redirectsOf(node.children, outer, this.#scope)
    const before = this.commands.length
    const isRedirect = (child: ShellNode) => child.type.endsWith('_redirect')
    for (const child of node.children) if (!isRedirect(child)) this.visit(child, redirects)
    if (this.commands.length === before) this.commands.push({ words: [], ...redirects })
    const body = this.commands.slice(before)
    for (const child of node.children.filter(isRedirect)) this.#visitRedirect(child, body)
  }

  /** A here-document's line may go on with a pipe, whose commands the grammar puts inside the redirection. */
  #visitRedirect(node: ShellNode, body: SimpleCommand[]): void {
    if (node.type === 'heredoc_redirect') this.#keepDocument(node)
    for (const child of node.children) {
      if (child.type !== 'pipeline') this.visit(child, NO_REDIRECTS)
      else this.pipelines.push([body, ...this.#stages(child, NO_REDIRECTS)])
    }
  }

  #stages(node: ShellNode, redirects: Redirects): SimpleCommand[][] {
    return node.children
      .filter((child) => child.type !== '|' && child.type !== '|&')
      .map((child) => {
        const before = this.commands.length
        this.visit(child, redirects)
        return this.commands.slice(before)
      })
  }

  #assign(node: ShellNode): void {
    const [name, , value] = node.children
    if (!name) return
    this.#remember(name, value ? [textOf(value, this.#scope)] : [''])
  }

  #assignLoop(node: ShellNode): void {
    const name = node.children.find((child) => child.type === 'variable_name')
    const values = node.children.filter((child) => !NOT_A_LOOP_VALUE.test(child.type))
    if (name)
      this.#remember(
        name,
        values.flatMap((value) => wordsOf(value, this.#scope).map((w) => w.text)),
      )
  }

  /** Flow is not followed: a variable has every value that any assignment gives it. */
  #remember(nameNode: ShellNode, values: readonly string[]): void {
    const name = this.#scope.source.slice(nameNode.start, nameNode.end)
    const { variables } = this.#scope
    const known = variables.get(name) ?? []
    if (variables.has(name) && variables.get(name) === undefined) return
    const all = [...new Set([...known, ...values.map((value) => value.replaceAll('\u0001', ' '))])]
    const isKnown = all.length <= MAX_VALUES && !all.some((value) => value.includes(UNKNOWN))
    variables.set(name, isKnown ? all : undefined)
  }

  #keepBackquotes(node: ShellNode): void {
    const raw = this.#text(node)
    if (raw.startsWith('`') && raw.includes('\\')) this.scripts.push(unescapeBackquoted(raw.slice(1, -1)))
  }

  #keepDocument(node: ShellNode): void {
    const { source } = this.#scope
    if (isExpandedDocument(node, source)) this.#keepBackquoted(documentOf(node, source))
  }

  #keepHidden(text: string): void {
    if (text.includes('`')) this.#keepBackquoted(text)
    if (SUBSTITUTION.test(text)) this.hasHiddenPart = true
  }

  #keepBackquoted(text: string): void {
    const scripts = backquotedScripts(text)
    if (scripts) this.scripts.push(...scripts)
    else this.hasHiddenPart = true
  }

  #text = (node: ShellNode): string => this.#scope.source.slice(node.start, node.end)
}

/** Leaves in which a backquote or a dollar is itself, or which are judged with what is around them. */
const LITERAL = /^(?:raw_string|ansi_c_string|comment|heredoc_\w+|`|\$\(|string_content)$/
/** The start of `$(…)`, `<(…)` or `>(…)`, not escaped, with anything behind it: a line feed too. */
const SUBSTITUTION = /(?<!\\)(?:\\\\)*[$<>]\([\s\S]/
const MAX_VALUES = 16
const NOT_A_WORD = /_redirect$|^\$$|^[<>&|;]/
const NOT_A_LOOP_VALUE = /^(?:for|select|in|;|do_group|variable_name|compound_statement|\n)$/
