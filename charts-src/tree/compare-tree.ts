import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { lineDiff } from './line-diff.ts'
import type { TreeFiles } from './tree-files.ts'

export interface Difference {
  readonly path: string
  readonly what: 'changed' | 'missing' | 'extra' | 'not a file'
  /** Diff from the existing file to the expected one. */
  readonly lines: readonly string[]
}

/** Returns the differences between a folder and its expected tree, sorted by path. */
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

/**
 * File contents by path. Null for anything but a regular file: a symbolic link could show different text to
 * different readers.
 */
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
