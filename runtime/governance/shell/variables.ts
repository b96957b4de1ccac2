import type { ShellNode } from './grammar.ts'
import { OUTSIDE, SPLIT, UNKNOWN, WORDS } from './marks.ts'
import { protect, protectBraces } from './unquote.ts'

const MAX_VALUES = 16

/**
 * The values that the script assigns to each variable. Control flow is not followed: every assignment counts
 * everywhere. Array elements are separated by `SPLIT`.
 */
export class Variables {
  /**
   * Whether a variable got a new value after it was expanded. In a loop or a function, that assignment may run
   * first.
   */
  changedAfterRead = false
  readonly #values = new Map<string, readonly string[]>([
    ['HOME', ['~']],
    ['PWD', ['.']],
    ['IFS', [' \t\n']],
  ])
  readonly #read = new Set<string>()

  get(name: string): readonly string[] | undefined {
    this.#read.add(name)
    return this.#values.get(name)
  }

  assign(name: string, values: readonly string[]): void {
    const before = this.#values.get(name) ?? []
    const all = [...new Set([...before, ...values])]
    this.#values.set(name, all.length <= MAX_VALUES ? all : [WORDS])
    this.changedAfterRead ||= this.#read.has(name) && all.length > before.length
  }
}

/** The positional parameters of a script or a function. */
export interface Positional {
  /** All lists that the parameters may be. Undefined if unknown. */
  readonly lists: readonly (readonly string[])[] | undefined
  readonly zero: string
}

export const NO_PARAMETERS: Positional = { lists: [[]], zero: OUTSIDE }
export const UNKNOWN_PARAMETERS: Positional = { lists: undefined, zero: UNKNOWN }

/** The context of an expansion. */
export interface Scope {
  readonly source: string
  readonly variables: Variables
  positional: Positional
  /** Whether the script calls `shift`, so that the parameters may be any tail of their list. */
  readonly isShifted: boolean
  /** Returns whether a command substitution prints only paths, numbers or names. */
  readonly isPlain: (substitution: ShellNode) => boolean
  /** Returns the possible texts of a node. `isWhole` is set if the result is not split into words. */
  readonly expand: (node: ShellNode, scope: Scope, isWhole: boolean) => string[]
}

/** Returns the possible texts of an expansion. */
export function expandVariable(node: ShellNode, scope: Scope, isWhole: boolean): string[] {
  const read = readExpansion(node, scope)
  if (read.isLength) return [OUTSIDE]
  const values = read.isComputed ? [unknown(isWhole)] : valuesOf(read.name, scope, isWhole)
  if (read.operator === undefined || /^:?\?$/.test(read.operator))
    return values ?? [outside(read.name, isWhole)]
  if (!/^:?[-=+]$/.test(read.operator)) return [unknown(isWhole)]
  return withDefault({ ...read, values }, scope, isWhole)
}

const unknown = (isWhole: boolean) => (isWhole ? UNKNOWN : WORDS)

/** `${x:-word}`, `${x:=word}`, `${x:+word}`. */
function withDefault(
  { name, operator = '', operands, values }: Expansion & { readonly values: readonly string[] | undefined },
  scope: Scope,
  isWhole: boolean,
): string[] {
  const other = operands.flatMap((operand) => scope.expand(operand, scope, isWhole).map(asWords(isWhole)))
  if (operator.endsWith('=')) scope.variables.assign(name, other)
  const before = operator.endsWith('+') ? [''] : (values ?? shellsOwn(name, isWhole))
  return [...new Set([...before, ...(other.length > 0 ? other : [''])])]
}

/** Blanks in an unquoted default value split it into words. */
const asWords = (isWhole: boolean) => (text: string) => (isWhole ? text : text.replace(/\s+/g, SPLIT))

interface Expansion {
  readonly name: string
  /** `${#x}` */
  readonly isLength: boolean
  /** `${!x}`, and names that cannot be parsed. */
  readonly isComputed: boolean
  readonly operator: string | undefined
  readonly operands: readonly ShellNode[]
}

function readExpansion(node: ShellNode, { source }: Scope): Expansion {
  const text = ({ start, end }: ShellNode) => source.slice(start, end)
  const inside = node.children.filter(({ type }) => !/^(?:\$|\$\{|\})$/.test(type))
  const at = inside.findIndex(({ type }) => /^(?:variable_name|special_variable_name|subscript)$/.test(type))
  const name = inside[at]
  const prefix = inside.slice(0, Math.max(at, 0)).map(text).join('')
  const [operator, ...operands] = inside.slice(at + 1)
  return {
    name: name ? text(name) : '',
    isLength: prefix === '#',
    isComputed: name === undefined || (prefix !== '' && prefix !== '#'),
    operator: operator && text(operator),
    operands,
  }
}

/** Variables that the shell sets itself, from input or commands of the script. */
const SET_BY_SHELL =
  /^(?:REPLY|OPTARG|MAPFILE|COPROC|BASH\w*|DIRSTACK|FUNCNAME|SHELLOPTS|SHELL|_|-|0)(?:\[|$)/
const NUMBERS = /^[#?$!]$/

const shellsOwn = (name: string, isWhole: boolean): string[] =>
  SET_BY_SHELL.test(name) ? [unknown(isWhole)] : []

const outside = (name: string, isWhole: boolean): string => shellsOwn(name, isWhole)[0] ?? OUTSIDE

/** The values that the script assigns to a name. Undefined if it assigns none. */
function valuesOf(name: string, scope: Scope, isWhole: boolean): string[] | undefined {
  if (NUMBERS.test(name)) return [OUTSIDE]
  if (/^[@*]$|^\d+$/.test(name)) return parametersOf(name, scope, isWhole)
  const [, base = '', index] = /^(\w+)(?:\[(.*)\])?$/s.exec(name) ?? []
  const values = scope.variables.get(base)
  if (values === undefined) return undefined
  const isList = index === undefined || /^[@*]$/.test(index)
  const texts = isList ? values : values.flatMap((value) => value.split(SPLIT))
  return texts.map((value) => inserted(value, scope, isWhole))
}

function parametersOf(name: string, scope: Scope, isWhole: boolean): string[] {
  const { lists, zero } = scope.positional
  if (name === '0') return [isWhole ? protect(zero) : zero]
  if (lists === undefined) return [isWhole && /\d/.test(name) ? UNKNOWN : WORDS]
  const ends = scope.isShifted ? lists.flatMap(endsOf) : lists
  const texts = /\d/.test(name) ? ends.map((list) => list[Number(name) - 1] ?? '') : ends.map(joined)
  const values = [...new Set(texts)]
  if (values.length > MAX_VALUES) return [WORDS]
  return values.map((text) => inserted(text, scope, isWhole))
}

const joined = (list: readonly string[]) => list.join(SPLIT)

const endsOf = (list: readonly string[]) => [...list.keys(), list.length].map((from) => list.slice(from))

/** The text of an expanded value: one word, or split at `IFS` with active wildcards. */
function inserted(value: string, { variables }: Scope, isWhole: boolean): string {
  if (isWhole) return protect(value.replaceAll(WORDS, UNKNOWN))
  const separators = variables.get('IFS')?.join('') ?? ''
  if (/[\uE000-\uE002]/.test(separators)) return WORDS
  const split = new RegExp(`[\\s${separators.replace(/[\\\]^-]/g, '\\$&')}]+`, 'g')
  return protectBraces(value.replace(split, SPLIT))
}
