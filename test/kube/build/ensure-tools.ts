import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { withBuildLock } from './build-lock.ts'
import { buildModule } from './build-module.ts'
import { cacheKey } from './cache-key.ts'
import { requireSpace } from './disk-space.ts'
import { readGoVersion } from './go-version.ts'
import { type ModuleName, TOOL_MODULES } from './modules.ts'
import { createProgress, duration } from './progress.ts'
import { pruneEntries, touchEntry } from './prune-entries.ts'
import { cacheRoot, clearDeadScratch, makeScratch, readDurations, recordDuration } from './tool-cache.ts'

/** Where the built programs and the files that go with them are. */
export interface Tools {
  bin(module: ModuleName, program: string): string
  share(module: ModuleName, path: string): string
  /** The folders that hold programs, for a PATH. */
  readonly binFolders: readonly string[]
}

export type Say = (line: string) => void

const LOCK_TIMEOUT_MS = 60 * 60_000

/** Builds what is missing of `names` and answers where everything is. */
export async function ensureTools(
  names: readonly ModuleName[],
  say: Say,
  root = cacheRoot(),
): Promise<Tools> {
  const goVersion = readGoVersion()
  const entries = new Map(names.map((name) => [name, join(root, cacheKey(name, goVersion))]))
  const missing = [...entries].filter(([, entry]) => !touchEntry(entry))
  if (missing.length > 0) await buildMissing(missing, root, say)
  const entryOf = (name: ModuleName) => entries.get(name) ?? join(root, cacheKey(name, goVersion))
  return {
    bin: (name, program) => join(entryOf(name), 'bin', program),
    share: (name, path) => join(entryOf(name), 'share', path),
    binFolders: [...entries.values()].map((entry) => join(entry, 'bin')),
  }
}

async function buildMissing(missing: readonly [ModuleName, string][], root: string, say: Say): Promise<void> {
  mkdirSync(root, { recursive: true })
  await withBuildLock(join(root, 'build.lock'), { timeoutMs: LOCK_TIMEOUT_MS, say }, async () => {
    clearDeadScratch(root)
    const scratch = makeScratch(root)
    try {
      for (const [name, entry] of missing) {
        if (!existsSync(entry)) await buildOne(name, { entry, scratch, root, say })
      }
      for (const name of pruneEntries(root, scratch)) say(`removed ${name}, which is no longer used`)
    } finally {
      rmSync(scratch, { recursive: true, force: true })
    }
  })
}

interface Place {
  readonly entry: string
  readonly scratch: string
  readonly root: string
  readonly say: Say
}

async function buildOne(name: ModuleName, { entry, scratch, root, say }: Place): Promise<void> {
  requireSpace(root, TOOL_MODULES[name].scratchGiB)
  const expectedSeconds = readDurations(root)[name] ?? TOOL_MODULES[name].expectedSeconds
  say(`building ${name} (once; about ${duration(expectedSeconds * 1000)})`)
  const progress = createProgress(name, { say, expectedSeconds })
  // A caller's own GOCACHE is used and kept; ours is dropped with the scratch folder, as it grows to gigabytes.
  const own = process.env['GOCACHE'] === undefined
  const goCache = process.env['GOCACHE'] ?? join(scratch, 'go-cache')
  mkdirSync(goCache, { recursive: true })
  await buildModule({ name, entry, scratch, goCache, progress })
  if (own) recordDuration(root, name, progress.elapsedSeconds())
  say(`built ${name} in ${duration(progress.elapsedSeconds() * 1000)}`)
}
