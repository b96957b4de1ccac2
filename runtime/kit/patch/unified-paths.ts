import type { LineReader } from './line-reader.ts'

const NOWHERE = '/dev/null'
const ESCAPES: Readonly<Record<string, number>> = {
  n: 10,
  t: 9,
  r: 13,
  '"': 34,
  '\\': 92,
  a: 7,
  b: 8,
  f: 12,
  v: 11,
}

/** The path of a `--- `, `+++ ` or `rename` field: without a time stamp, unquoted; undefined for /dev/null. */
export function parsePathField(field: string, reader: LineReader): string | undefined {
  const path = field.startsWith('"') ? unquote(field, reader) : field.split('\t')[0]?.trimEnd()
  if (path === undefined || path === '') throw reader.problem('a file header without a path')
  return path === NOWHERE ? undefined : path
}

/** Git quotes a path in C's way when it has unusual bytes; octal escapes are bytes of UTF-8. */
function unquote(field: string, reader: LineReader): string {
  const quoted = /^"((?:[^"\\]|\\.)*)"/.exec(field)?.[1]
  if (quoted === undefined) throw reader.problem('a quoted path without its end')
  const bytes: number[] = []
  for (const [piece] of quoted.matchAll(/\\[0-3][0-7]{2}|\\.|[^\\]+/gu)) {
    if (!piece.startsWith('\\')) bytes.push(...new TextEncoder().encode(piece))
    else if (piece.length === 4) bytes.push(Number.parseInt(piece.slice(1), 8))
    else {
      const code = ESCAPES[piece.slice(1)]
      if (code === undefined) throw reader.problem(`unknown escape ${piece} in a path`)
      bytes.push(code)
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes))
}

type Names = { old: string | undefined; new: string | undefined }

/** Removes `a/` and `b/` if both names have them: a single prefix may be a real folder name. */
export function stripPrefixes(old: string | undefined, renamed: string | undefined, isGit: boolean): Names {
  const hasOld = old === undefined || old.startsWith('a/')
  const hasNew = renamed === undefined || renamed.startsWith('b/')
  const isPair = old !== undefined && renamed !== undefined
  const strips = hasOld && hasNew && (isGit || !isPair || old.slice(2) === renamed.slice(2))
  return strips ? { old: old?.slice(2), new: renamed?.slice(2) } : { old, new: renamed }
}
