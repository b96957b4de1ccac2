import { execFileSync } from 'node:child_process'
import { readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { LayerEntry } from './image-spec.ts'

/** A program of the host at `path`, with its shared libraries at the paths where the loader looks for them. */
export function programWithLibraries(source: string, path: string): LayerEntry[] {
  const libraries = librariesOf(source).map((library): LayerEntry => file(library, library.slice(1)))
  return [{ kind: 'file', path, source: realpathSync(source), executable: true }, ...libraries]
}

/** The libraries that `ldd` lists. Empty for a static program. */
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

/** A folder of the host with all its contents, except for paths that match `skip`. */
export function folderTree(source: string, path: string, skip = /(?!)/): LayerEntry[] {
  return readdirSync(source, { withFileTypes: true }).flatMap((entry): LayerEntry[] => {
    const [from, to] = [join(source, entry.name), join(path, entry.name)]
    if (skip.test(from)) return []
    if (entry.isDirectory()) return folderTree(from, to, skip)
    if (entry.isSymbolicLink()) return [{ kind: 'link', path: to, target: readlinkSync(from) }]
    return entry.isFile() ? [file(from, to)] : []
  })
}

function file(source: string, path: string): LayerEntry {
  return {
    kind: 'file',
    path,
    source: realpathSync(source),
    executable: (statSync(source).mode & 0o111) !== 0,
  }
}

/** One entry per path. Adds a folder entry for every parent that has none. */
export function completeLayer(entries: readonly LayerEntry[]): LayerEntry[] {
  const byPath = new Map(entries.map((entry) => [entry.path, entry]))
  for (const { path } of entries) {
    for (let parent = dirname(path); parent !== '.'; parent = dirname(parent)) {
      if (!byPath.has(parent)) byPath.set(parent, { kind: 'folder', path: parent })
    }
  }
  return [...byPath.values()]
}
