import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { Language, Parser, type TreeCursor } from 'web-tree-sitter'
import { boundsProblem, MAX_DEPTH, MAX_NODES } from './bounds.ts'

/**
 * A node of a parsed script, as plain data, so that all code after the parser is pure. Offsets are in UTF-16
 * units.
 */
export interface ShellNode {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly children: readonly ShellNode[]
}

/** `source` is the text that was parsed. It differs from the input in a few replaced characters of equal length. */
export type ShellParse =
  | { readonly ok: true; readonly root: ShellNode; readonly source: string }
  | { readonly ok: false; readonly reason: string }

/** Parses shell text. Synchronous; never throws. A text that cannot be parsed is returned with the reason. */
export interface ShellGrammar {
  parse(script: string): ShellParse
}

/** The two WebAssembly modules, when a bundle embeds them. */
export interface GrammarModules {
  readonly runtime: Uint8Array
  readonly bash: Uint8Array
}

/**
 * V8's optimising compiler needs about 500 MB for some seconds from the second script on, more than
 * some pods have, and parsing gets no faster. These flags apply only to modules compiled after they are set.
 */
const WITHOUT_OPTIMISING = ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']

/** Loads the shell grammar, by default from the installed packages. */
export async function loadShellGrammar(modules?: GrammarModules): Promise<ShellGrammar> {
  for (const flag of WITHOUT_OPTIMISING) setFlagsFromString(flag)
  const { runtime, bash } = modules ?? (await readGrammarModules())
  // Copied, because the WebAssembly loader may detach or keep the buffer.
  await Parser.init({ wasmBinary: new Uint8Array(runtime).buffer })
  const language = await Language.load(new Uint8Array(bash))
  const parser = new Parser()
  parser.setLanguage(language)
  return createGrammar(parser, language)
}

/** Reads both modules from the installed packages. Used at build time to embed them in a bundle. */
export async function readGrammarModules(): Promise<GrammarModules> {
  // Test runners do not support `import.meta.resolve`.
  const { resolve } = createRequire(import.meta.url)
  const read = (specifier: string) => readFile(resolve(specifier))
  const [runtime, bash] = await Promise.all([
    read('web-tree-sitter/web-tree-sitter.wasm'),
    read('tree-sitter-bash/tree-sitter-bash.wasm'),
  ])
  return { runtime, bash }
}

/**
 * The grammar reads these characters as blanks, but a shell reads them as part of a word: `#` after one of them
 * does not start a comment.
 */
const NO_BLANKS = /[\r\v\f]/g
const WORD_CHARACTER = '\uE0FE'
/**
 * The grammar joins a line that begins with a backslash to the line before it, so it would read `
 * \rm` as one command.
 */
const FIRST_BACKSLASH = /(?<=\n[ \t]*)\\(?=[A-Za-z])/g

const unreadable = (reason: string): ShellParse => ({ ok: false, reason })

function createGrammar(parser: Parser, language: Language): ShellGrammar {
  let broken = false
  const typeNames = language.types
  const read = (script: string): ShellParse => {
    // Stop at the first error: error recovery can take long, and the script is rejected anyway.
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
        // After an abort the WebAssembly instance is in an undefined state, so its results can no longer be
        // trusted.
        broken = error instanceof Error
        return unreadable('the shell grammar has failed')
      }
    },
  }
}

/** Copies the tree out of WebAssembly memory. Returns undefined if the tree exceeds `MAX_NODES` or `MAX_DEPTH`. */
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
