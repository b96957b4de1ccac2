import { execFileSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileEntry } from '../../images/contents.ts'
import type { LayerEntry } from './image-spec.ts'

/** A program of this machine, placed at `path`, with its shared libraries at the paths where the loader looks for them. */
export function programWithLibraries(source: string, path: string): LayerEntry[] {
  const libraries = librariesOf(source).map((library) => fileEntry(library, library.slice(1)))
  return [{ kind: 'file', path, source: realpathSync(source), executable: true }, ...libraries]
}

/** The shared libraries that `ldd` lists. A static program has none. */
export function librariesOf(source: string): string[] {
  try {
    const out = execFileSync('ldd', [realpathSync(source)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return [...out.matchAll(/(\/\S+) \(0x/g)].map((match) => match[1] ?? '')
  } catch {
    return []
  }
}

/** Removes duplicate paths and adds an entry for every parent folder that is missing. */
export function completeLayer(entries: readonly LayerEntry[]): LayerEntry[] {
  const byPath = new Map(entries.map((entry) => [entry.path, entry]))
  for (const { path } of entries) {
    for (let parent = dirname(path); parent !== '.'; parent = dirname(parent)) {
      if (!byPath.has(parent)) byPath.set(parent, { kind: 'folder', path: parent })
    }
  }
  return [...byPath.values()]
}
