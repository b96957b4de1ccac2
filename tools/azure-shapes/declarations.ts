import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { InterfaceDeclaration, TypeNode } from 'typescript'
import ts from 'typescript'

const FOLDER = dirname(createRequire(import.meta.url).resolve('@pulumi/azure-native/package.json'))

/** One property of a declared type. */
export interface Property {
  readonly name: string
  readonly isOptional: boolean
  readonly type: TypeNode
}

/**
 * Reads only the declarations of azure-native that a type needs. The compiler's parser reads one namespace of the 7.6
 * MB of inputs. No type checker runs, because the generated files use few forms.
 */
export function readDeclarations() {
  const inputs = once((module: string) => interfacesIn(parse(namespaceText(module)), module))
  const enums = once((module: string) => enumsIn(parse(read('types', 'enums', module, 'index.d.ts'))))
  return {
    /** Returns the arguments of a resource's constructor; undefined if the package has no such resource. */
    args: (module: string, resource: string): readonly Property[] | undefined => {
      const file = fileOf(module, `${resource}Args`)
      return file === undefined
        ? undefined
        : interfacesIn(parse(read(module, `${file}.d.ts`))).get(`${resource}Args`)
    },
    input: (module: string, name: string) => inputs(module).get(name),
    /** The values that an enum has. */
    enumeration: (module: string, name: string) => enums(module).get(name),
  }
}

export type Declarations = ReturnType<typeof readDeclarations>

function read(...path: readonly string[]): string {
  return readFileSync(join(FOLDER, ...path), 'utf8')
}

const NAME = /^[A-Za-z][A-Za-z0-9]*$/

function fileOf(module: string, name: string): string | undefined {
  if (!NAME.test(module) || !NAME.test(name)) return undefined
  const index = readIfThere(module, 'index.d.ts')
  return new RegExp(`export \\{[^}]*\\b${name}\\b[^}]*\\} from "\\./([A-Za-z0-9]+)"`).exec(index)?.[1]
}

function readIfThere(...path: readonly string[]): string {
  try {
    return read(...path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

const allInputs = once(() => read('types', 'input.d.ts'))

/** Namespaces are not indented, so a namespace ends at a line that is only a closing brace. */
function namespaceText(module: string): string {
  const text = allInputs('')
  const start = text.indexOf(`\nexport declare namespace ${module} {`)
  if (start < 0) return ''
  return text.slice(start, text.indexOf('\n}', start) + 2)
}

function parse(text: string): ts.SourceFile {
  return ts.createSourceFile('declarations.d.ts', text, ts.ScriptTarget.ES2022, false, ts.ScriptKind.TS)
}

function interfacesIn(file: ts.SourceFile, namespace?: string): Map<string, readonly Property[]> {
  const found = new Map<string, readonly Property[]>()
  const visit = (node: ts.Node, inside: boolean): void => {
    if (ts.isInterfaceDeclaration(node) && inside) found.set(node.name.text, propertiesOf(node))
    if (ts.isModuleDeclaration(node) && node.body !== undefined && ts.isModuleBlock(node.body)) {
      node.body.statements.forEach((child) => void visit(child, inside || node.name.text === namespace))
    }
  }
  file.statements.forEach((node) => void visit(node, namespace === undefined))
  return found
}

function propertiesOf(node: InterfaceDeclaration): readonly Property[] {
  return node.members.map((member) => {
    if (!ts.isPropertySignature(member) || member.type === undefined) {
      throw new Error(`azure-native declares ${node.name.text} in a form that is not known here`)
    }
    return { name: textOf(member.name), isOptional: member.questionToken !== undefined, type: member.type }
  })
}

function textOf(name: ts.PropertyName): string {
  if (ts.isIdentifier(name) || ts.isStringLiteral(name)) return name.text
  throw new Error('azure-native declares a property whose name is not known here')
}

/** An enum is a constant object: `export declare const X: { readonly A: "a" }`. */
function enumsIn(file: ts.SourceFile): Map<string, readonly (string | number | boolean)[]> {
  const found = new Map<string, readonly (string | number | boolean)[]>()
  const declared = file.statements
    .filter(ts.isVariableStatement)
    .flatMap((s) => s.declarationList.declarations)
  for (const { name, type } of declared) {
    if (!ts.isIdentifier(name) || type === undefined || !ts.isTypeLiteralNode(type)) continue
    const members = type.members.filter(ts.isPropertySignature)
    found.set(
      name.text,
      members.map((member) => literalOf(member.type)),
    )
  }
  return found
}

/** The value of a type that is one literal. */
export function literalOf(type: TypeNode | undefined): string | number | boolean {
  const literal = type !== undefined && ts.isLiteralTypeNode(type) ? type.literal : undefined
  if (literal === undefined) throw new Error('azure-native declares a value that is no literal')
  if (ts.isStringLiteral(literal)) return literal.text
  if (ts.isNumericLiteral(literal)) return Number(literal.text)
  if (literal.kind === ts.SyntaxKind.TrueKeyword) return true
  if (literal.kind === ts.SyntaxKind.FalseKeyword) return false
  if (ts.isPrefixUnaryExpression(literal) && ts.isNumericLiteral(literal.operand))
    return -Number(literal.operand.text)
  throw new Error('azure-native declares a literal that is not known here')
}

function once<T>(make: (key: string) => T): (key: string) => T {
  const made = new Map<string, T>()
  return (key) => {
    const kept = made.get(key)
    if (kept !== undefined) return kept
    const value = make(key)
    made.set(key, value)
    return value
  }
}
