import { type Node, partOf, partsOf, readTree } from './syntax.ts'

/** A declaration of a file: a parameter, variable, resource, module or output. */
export interface Declaration {
  readonly kind: string
  readonly name: string
  readonly decorators: ReadonlyMap<string, Node | undefined>
  readonly node: Node
  /** The type of a resource with its version, or the file of a module. */
  readonly of: string
  /** What is declared, without its condition and its loop. */
  readonly body: Node
  readonly condition: Node | undefined
  readonly loop: Loop | undefined
  readonly isExisting: boolean
}

export interface Loop {
  readonly item: string
  readonly index: string | undefined
  readonly source: Node
}

export interface BicepFile {
  readonly path: string
  readonly targetScope: string
  readonly declarations: ReadonlyMap<string, Declaration>
  readonly outputs: readonly Declaration[]
  /** The file of each imported name. */
  readonly imports: ReadonlyMap<string, string>
}

const KINDS = [
  'parameter_declaration',
  'variable_declaration',
  'resource_declaration',
  'module_declaration',
  'output_declaration',
]
const DECORATORS = ['description', 'export', 'minLength', 'maxLength']

function decoratorsOf(node: Node | undefined): Map<string, Node | undefined> {
  const calls = node === undefined ? [] : partsOf(node).flatMap(partsOf)
  return new Map(
    calls.map((call) => {
      const name = call.childForFieldName('function')?.text ?? ''
      const args = call.childForFieldName('arguments')
      if (!DECORATORS.includes(name)) throw new Error(`unknown decorator ${name}`)
      return [name, args === null ? undefined : partsOf(args)[0]]
    }),
  )
}

function unwrap(value: Node): Pick<Declaration, 'body' | 'condition' | 'loop'> {
  if (value.type === 'if_statement') {
    const [condition, body] = partsOf(value)
    if (condition === undefined || body === undefined) throw new Error('unknown if')
    return { body, condition, loop: undefined }
  }
  if (value.type !== 'for_statement') return { body: value, condition: undefined, loop: undefined }
  const body = value.childForFieldName('body')
  const [first, source] = partsOf(value)
  if (body === null || first === undefined || source === undefined) throw new Error('unknown for')
  if (body.type === 'if_statement') throw new Error('an if inside a for is not known')
  const [item = '', index] =
    first.type === 'identifier' ? [first.text] : partsOf(first).map(({ text }) => text)
  return { body, condition: undefined, loop: { item, index, source } }
}

function declarationOf(node: Node, decorators: Node | undefined): Declaration {
  if (!KINDS.includes(node.type)) throw new Error(`unknown declaration ${node.type}`)
  const kind = node.type.replace('_declaration', '')
  const [name, second] = partsOf(node)
  const value = partsOf(node).at(-1)
  if (name === undefined || second === undefined || value === undefined)
    throw new Error('unknown declaration')
  return {
    kind,
    name: name.text,
    decorators: decoratorsOf(decorators),
    node,
    of: second.text.replaceAll("'", ''),
    ...unwrap(value),
    isExisting: node.children.some(({ type }) => type === 'existing'),
  }
}

function importOf(node: Node): [string, string][] {
  const from = (partOf(node, 'string')?.text ?? '').replaceAll("'", '')
  return partsOf(node)
    .filter(({ type }) => type === 'identifier')
    .map(({ text }) => [text, from])
}

const NOT_DECLARATIONS = ['decorators', 'target_scope_assignment', 'import_functionality']

/** The declarations of a file. Syntax that the tests' evaluator does not know throws. */
export function readBicep(path: string): BicepFile {
  const statements = partsOf(readTree(path))
  const targetScope = statements.find(({ type }) => type === 'target_scope_assignment')
  const declared = statements.flatMap((node, index) => {
    if (NOT_DECLARATIONS.includes(node.type)) return []
    const before = statements[index - 1]
    return [declarationOf(node, before?.type === 'decorators' ? before : undefined)]
  })
  const named = declared.filter(({ kind }) => kind !== 'output')
  const declarations = new Map(named.map((one) => [one.name, one]))
  if (declarations.size !== named.length) throw new Error(`${path}: a name is declared twice`)
  return {
    path,
    targetScope: partOf(targetScope ?? readTree(path), 'string')?.text.replaceAll("'", '') ?? 'resourceGroup',
    declarations,
    outputs: declared.filter(({ kind }) => kind === 'output'),
    imports: new Map(statements.filter(({ type }) => type === 'import_functionality').flatMap(importOf)),
  }
}
