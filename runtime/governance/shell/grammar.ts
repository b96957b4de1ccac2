import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { Language, Parser, type TreeCursor } from 'web-tree-sitter'
import { boundsProblem, MAX_DEPTH, MAX_NODES } from './bounds.ts'

/** A node of a parsed script: plain data, so that everything after the parser is pure. Offsets are UTF-16. */
export interface ShellNode {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly children: readonly ShellNode[]
}

/** `source` is the text that was parsed: a few characters of the given one are replaced. */
export type ShellParse =
  | { readonly ok: true; readonly root: ShellNode; readonly source: string }
  | { readonly ok: false; readonly reason: string }

/** Parses shell text. Synchronous, and never throws: what it cannot read is said so. */
export interface ShellGrammar {
  parse(script: string): ShellParse
}

/** The two WebAssembly modules, where a bundle embeds them. */
export interface GrammarModules {
  readonly runtime: Uint8Array
  readonly bash: Uint8Array
}

/**
 * Optimising the grammar takes V8 half a gigabyte for some seconds, from the second script on, and makes parsing no
 * faster: half of that is what a pod has. The flags count for modules that are compiled after them.
 */
const WITHOUT_OPTIMISING = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']

/** Loads the shell grammar, by default from the installed packages. */
export async function loadShellGrammar(modules?: GrammarModules): Promise<ShellGrammar> {
  for (const flag of WITHOUT_OPTIMISING) setFlagsFromString(flag)
  const { runtime, bash } = modules ?? (await readGrammarModules())
  // The module is copied: the WebAssembly loader may detach or keep what it is given.
  await Parser.init({ wasmBinary: new Uint8Array(runtime).buffer })
  const language = await Language.load(new Uint8Array(bash))
  const parser = new Parser()
  parser.setLanguage(language)
  return createGrammar(parser, language)
}

/** Reads the modules from the installed packages; a bundler's build embeds them. */
export async function readGrammarModules(): Promise<GrammarModules> {
  // Not `import.meta.resolve`, which test runners do not have.
  const { resolve } = createRequire(import.meta.url)
  const read = (specifier: string) => readFile(resolve(specifier))
  const [runtime, bash] = await Promise.all([
    read('web-tree-sitter/web-tree-sitter.wasm'),
    read('tree-sitter-bash/tree-sitter-bash.wasm'),
  ])
  return { runtime, bash }
}

/** Blanks to the grammar, but part of a word to a shell: behind one of them `#` begins no comment. */
const NO_BLANKS = /[\r\v\f]/g
const WORD_CHARACTER = '\uE0FE'
/** The grammar takes a backslash at the beginning of a line for a joined line: `\n\rm` would go on the line before. */
const FIRST_BACKSLASH = /(?<=\n[ \t]*)\\(?=[A-Za-z])/g

const unreadable = (reason: string): ShellParse => ({ ok: false, reason })

function createGrammar(parser: Parser, language: Language): ShellGrammar {
  let broken = false
  const typeNames = language.types
  const read = (script: string): ShellParse => {
    // The first error ends the parse: recovery is where time grows, and the answer would be the same.
    const tree = parser.parse(script, null, {
      progressCallback: (state) => state.hasError,
    })
    if (tree === null) {
      parser.reset()
      return unreadable('it is not valid shell')
    }
    try {
      if (tree.rootNode.hasError) return unreadable('it is not valid shell')
      const cursor = tree.walk()
      const root = copyTree(cursor, typeNames)
      cursor.delete()
      return root ? { ok: true, root, source: script } : unreadable('it is too large or nested too deeply')
    } finally {
      tree.delete()
    }
  }
  return {
    parse: (script) => {
      const problem = broken ? 'the shell grammar has failed' : boundsProblem(script)
      if (problem !== undefined) return unreadable(problem)
      try {
        return read(script.replace(NO_BLANKS, WORD_CHARACTER).replace(FIRST_BACKSLASH, ' '))
      } catch (error) {
        // An abort leaves the WebAssembly instance undefined: nothing it says after that can be trusted.
        broken = error instanceof Error
        return unreadable('the shell grammar has failed')
      }
    },
  }
}

/** Copies a tree out of the WebAssembly memory; undefined where it is larger than anything written by hand. */
function copyTree(cursor: TreeCursor, types: readonly string[]): ShellNode | undefined {
  let left = MAX_NODES
  const copy = (depth: number): ShellNode | undefined => {
    if (depth > MAX_DEPTH || left-- === 0) return undefined
    const type = types[cursor.nodeTypeId] ?? cursor.nodeType
    const { startIndex: start, endIndex: end } = cursor
    const children = cursor.gotoFirstChild() ? copySiblings(depth + 1) : []
    return children && { type, start, end, children }
  }
  const copySiblings = (depth: number): ShellNode[] | undefined => {
    const nodes: ShellNode[] = []
    do {
      const node = copy(depth)
      if (node === undefined) return undefined
      nodes.push(node)
    } while (cursor.gotoNextSibling())
    cursor.gotoParent()
    return nodes
  }
  return copy(0)
}
