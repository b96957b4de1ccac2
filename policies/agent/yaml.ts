import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  LineCounter,
  type Node,
  parseDocument,
  visit,
  type YAMLMap,
  type YAMLParseError,
  type YAMLWarning,
} from 'yaml'
import type { z } from 'zod'

/** Maximum length of a name that is quoted in a reason. */
const MAX_NAME = 200

/**
 * Control characters are refused: an editor does not show them, and some tools end a text at NUL. Of these, YAML 1.2 allows only
 * U+0085.
 */
const CONTROL = /(?![\t\n\r])\p{Cc}/u

/** The reason why a YAML text is invalid, and its line (from 1). */
export interface YamlFault {
  readonly ok: false
  readonly line: number
  readonly reason: string
}

/**
 * Parses YAML strictly: one document, no control characters, no duplicate keys, no anchors, aliases or custom tags, and
 * exactly the schema. Returns the first problem with its line.
 */
export function parseYaml<T extends z.ZodType>(
  text: string,
  schema: T,
): { readonly ok: true; readonly value: z.infer<T>; readonly document: Document.Parsed } | YamlFault {
  const control = controlIn(text)
  if (control) return control
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    strict: true,
    stringKeys: true,
    prettyErrors: false,
    // The parser compares each key with every other key, which takes seconds for a hostile file. `findForbidden` checks
    // each key once.
    uniqueKeys: false,
  })
  const lineAt = (offset: number) => lines.linePos(offset).line
  const [problem] = [...document.errors, ...document.warnings]
  if (problem) return { ok: false, line: lineAt(problem.pos[0]), reason: wordsOf(problem) }
  const forbidden = findForbidden(document)
  if (forbidden) return { ok: false, line: lineAt(forbidden.at), reason: forbidden.reason }
  const parsed = schema.safeParse(document.toJS() ?? {})
  if (parsed.success) return { ok: true, value: parsed.data, document }
  return faultOf(parsed.error, (path) => {
    const node = locate(document, path)
    return node === undefined ? 1 : lineAt(node)
  })
}

function controlIn(text: string): YamlFault | undefined {
  const at = text.search(CONTROL)
  if (at < 0) return undefined
  const code = text.charCodeAt(at).toString(16).toUpperCase().padStart(4, '0')
  const line = text.slice(0, at).split('\n').length
  return { ok: false, line, reason: `contains the control character U+${code}` }
}

const wordsOf = ({ code, message }: YAMLParseError | YAMLWarning): string =>
  code === 'RESOURCE_EXHAUSTION' ? 'is nested too deeply' : short(message.split('\n')[0] ?? '')

/** A name in a hostile file may be as long as the file. */
const short = (text: string): string => (text.length > MAX_NAME ? `${text.slice(0, MAX_NAME)}…` : text)

type Forbidden = { readonly at: number; readonly reason: string }

/** Finds the first anchor, alias, tag or duplicate key. */
function findForbidden(document: ReturnType<typeof parseDocument>): Forbidden | undefined {
  let found: Forbidden | undefined
  visit(document, {
    Node(_key, node) {
      found = forbiddenIn(node)
      return found && visit.BREAK
    },
  })
  return found
}

function forbiddenIn(node: Node): Forbidden | undefined {
  const isAnchored = 'anchor' in node && node.anchor !== undefined
  if (isAnchored || isAlias(node) || node.tag !== undefined) {
    return { at: node.range?.[0] ?? 0, reason: 'anchors, aliases and tags are not allowed' }
  }
  return isMap(node) ? repeatedKey(node) : undefined
}

function repeatedKey({ items }: YAMLMap): Forbidden | undefined {
  const seen = new Set<unknown>()
  for (const { key } of items) {
    if (!isScalar(key)) continue
    if (seen.has(key.value)) {
      return { at: key.range?.[0] ?? 0, reason: `${short(String(key.value))}: is there twice` }
    }
    seen.add(key.value)
  }
  return undefined
}

type Located = { range?: [number, number, number] | null }

function locate(
  document: ReturnType<typeof parseDocument>,
  path: readonly PropertyKey[],
): number | undefined {
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true) as Located | undefined
    if (node?.range) return node.range[0]
  }
  return undefined
}

function faultOf(error: z.ZodError, lineOf: (path: readonly PropertyKey[]) => number): YamlFault {
  const [issue] = error.issues
  if (!issue) return { ok: false, line: 1, reason: 'is not valid' }
  const unknown = issue.code === 'unrecognized_keys' ? issue.keys[0] : undefined
  const path = unknown === undefined ? issue.path : [...issue.path, unknown]
  const message = unknown === undefined ? issue.message : 'is not a known key'
  return {
    ok: false,
    line: lineOf(path),
    reason: `${short(path.map(String).join('.')) || 'the file'}: ${message}`,
  }
}
