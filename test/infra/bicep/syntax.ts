import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Language, type Node, Parser } from 'web-tree-sitter'

const { resolve } = createRequire(import.meta.url)
await Parser.init()
const parser = new Parser()
parser.setLanguage(await Language.load(readFileSync(resolve('tree-sitter-bicep/tree-sitter-bicep.wasm'))))

export type { Node }

/** The position of a node, for error messages. */
export const lineOf = (node: Node) => `line ${node.startPosition.row + 1}: ${node.text.slice(0, 60)}`

/** Children without punctuation and comments. */
export const partsOf = (node: Node): Node[] =>
  node.namedChildren.filter(({ type }) => !type.includes('comment'))

export const partOf = (node: Node, type: string): Node | undefined =>
  partsOf(node).find((part) => part.type === type)

const parse = (text: string): Node => {
  const tree = parser.parse(text)
  if (tree === null) throw new Error('the parser returned no tree')
  return tree.rootNode
}

function* nodesOf(node: Node): Generator<Node> {
  yield node
  for (const child of node.children) yield* nodesOf(child)
}

const SEPARATED = ['infrastructure', 'object', 'array']

/** Two neighbours need one separator: a comma, or the end of a line. The grammar also accepts none and both. */
function badSeparators(node: Node): Node[] {
  if (!SEPARATED.includes(node.type)) return []
  const items = node.children.filter(({ type }) => !type.includes('comment'))
  return items.filter((item, index) => {
    const before = items[index - 1]
    if (!item.isNamed || before === undefined || ['{', '['].includes(before.type)) return false
    const previous = before.type === ',' ? items[index - 2] : before
    const isNextLine = item.startPosition.row > (previous?.endPosition.row ?? 0)
    return isNextLine === (before.type === ',')
  })
}

/** All syntax errors of a file. */
export function syntaxProblems(text: string): string[] {
  const all = [...nodesOf(parse(text))]
  return [
    ...all.filter((node) => node.isError).map((node) => `${lineOf(node)} is not Bicep`),
    ...all.filter((node) => node.isMissing).map((node) => `${lineOf(node)}${node.type} is missing`),
    ...all.flatMap(badSeparators).map((node) => `${lineOf(node)} needs one separator before it`),
  ]
}

const trees = new Map<string, Node>()
/** The syntax tree of a file without syntax errors. */
export function readTree(path: string): Node {
  const known = trees.get(path)
  if (known) return known
  const text = readFileSync(path, 'utf8')
  const problems = syntaxProblems(text)
  if (problems.length > 0) throw new Error(`${path}: ${problems.join('\n')}`)
  const tree = parse(text)
  trees.set(path, tree)
  return tree
}
