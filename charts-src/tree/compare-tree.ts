import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { lineDiff } from './line-diff.ts'
import type { TreeFiles } from './tree-files.ts'

export interface Difference {
  readonly path: string
  readonly what: 'changed' | 'missing' | 'extra' | 'not a file'
  /** Lines of the difference, from what is there to what should be. */
  readonly lines: readonly string[]
}

/** How a folder differs from the tree that it should hold, in the order of paths. */
export function compareTree(folder: string, files: TreeFiles): Difference[] {
  const there = readTree(folder)
  const paths = [...new Set([...files.keys(), ...there.keys()])].sort()
  return paths
    .filter((path) => there.get(path) !== files.get(path))
    .map((path) => ({ path, ...describe(there.get(path), files.get(path)) }))
}

function describe(is: string | null | undefined, should: string | undefined): Omit<Difference, 'path'> {
  if (is === null) return { what: 'not a file', lines: [] }
  if (is === undefined) return { what: 'missing', lines: lineDiff('', should ?? '') }
  return { what: should === undefined ? 'extra' : 'changed', lines: lineDiff(is, should ?? '') }
}

/** Texts by path; null for what is no regular file, a link among them: it could show another text to another reader. */
function readTree(folder: string): Map<string, string | null> {
  if (!existsSync(folder)) return new Map()
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return new Map(
    entries
      .filter((entry) => !entry.isDirectory())
      .map((entry) => {
        const path = join(entry.parentPath, entry.name)
        const text = entry.isFile() ? readFileSync(path, 'utf8') : null
        return [relative(folder, path).split(sep).join('/'), text]
      }),
  )
}
