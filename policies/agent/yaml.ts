import { LineCounter, parseDocument, visit } from 'yaml'
import type { z } from 'zod'

/** What is wrong with a YAML text, and on which line (from 1). */
export interface YamlFault {
  readonly ok: false
  readonly line: number
  readonly reason: string
}

/**
 * Parses YAML strictly: one document, no duplicate keys, no anchors, aliases or tags of its own, and exactly the
 * schema. The first problem is told with its line.
 */
export function parseYaml<T extends z.ZodType>(
  text: string,
  schema: T,
): { readonly ok: true; readonly value: z.infer<T> } | YamlFault {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, strict: true })
  const [problem] = [...document.errors, ...document.warnings]
  if (problem) {
    return {
      ok: false,
      line: lines.linePos(problem.pos[0]).line,
      reason: problem.message.split('\n')[0] ?? '',
    }
  }
  let forbidden: { at: number; what: string } | undefined
  visit(document, {
    Node(_key, node) {
      const anchored = 'anchor' in node && node.anchor !== undefined
      const isAlias = 'source' in node && node.constructor.name === 'Alias'
      if (anchored || isAlias || node.tag !== undefined) {
        forbidden = { at: node.range?.[0] ?? 0, what: 'anchors, aliases and tags are not allowed' }
        return visit.BREAK
      }
      return undefined
    },
  })
  if (forbidden) return { ok: false, line: lines.linePos(forbidden.at).line, reason: forbidden.what }
  const parsed = schema.safeParse(document.toJS() ?? {})
  if (parsed.success) return { ok: true, value: parsed.data }
  return faultOf(parsed.error, (path) => {
    const node = locate(document, path)
    return node === undefined ? 1 : lines.linePos(node).line
  })
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
  return { ok: false, line: lineOf(path), reason: `${path.map(String).join('.') || 'the file'}: ${message}` }
}
