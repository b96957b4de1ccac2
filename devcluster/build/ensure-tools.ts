import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { withBuildLock } from './build-lock.ts'
import { buildModule } from './build-module.ts'
import { cacheKey } from './cache-key.ts'
import { freeGiB, requireSpace } from './disk-space.ts'
import { readGoVersion } from './go-version.ts'
import { type ModuleName, TOOL_MODULES } from './modules.ts'
import { createProgress, duration } from './progress.ts'
import { pruneEntries, touchEntry } from './prune-entries.ts'
import { cacheRoot, clearDeadScratch, makeScratch, readDurations, recordDuration } from './tool-cache.ts'

/** Paths of the built programs and their shared files. */
export interface Tools {
  bin(module: ModuleName, program: string): string
  share(module: ModuleName, path: string): string
  /** The folders with programs, for `PATH`. */
  readonly binFolders: readonly string[]
}

export type Say = (line: string) => void

const LOCK_TIMEOUT_MS = 60 * 60_000

/** Builds the modules of `names` that are not in the cache, and returns the paths of all programs. */
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
    announce(missing, root, say)
    const scratch = makeScratch(root)
    // The Go cache is kept after a failed or interrupted build, so the next build continues from it.
    const goCache = process.env['GOCACHE'] ?? join(root, 'go-cache')
    const dropCache = () => {
      if (isOurs(goCache, root)) rmSync(goCache, { recursive: true, force: true })
    }
    try {
      await buildAll(missing, { scratch, goCache, isCold: !existsSync(goCache), root, say })
      dropCache()
    } catch (error) {
      if (freeGiB(root) < 1) dropCache()
      throw error
    } finally {
      rmSync(scratch, { recursive: true, force: true })
    }
  })
}

async function buildAll(
  missing: readonly [ModuleName, string][],
  place: Omit<Place, 'entry'>,
): Promise<void> {
  for (const [name, entry] of missing) {
    if (!existsSync(entry)) await buildOne(name, { ...place, entry })
  }
  for (const name of pruneEntries(place.root, place.scratch))
    place.say(`removed ${name}, which is no longer used`)
}

/** A cache that the caller chose with GOCACHE is kept. Our own cache grows to gigabytes and is deleted. */
const isOurs = (goCache: string, root: string) => goCache === join(root, 'go-cache')

function announce(missing: readonly [ModuleName, string][], root: string, say: Say): void {
  const seconds = missing.reduce((total, [name]) => total + expectedSecondsOf(name, root), 0)
  const needed = Math.max(...missing.map(([name]) => TOOL_MODULES[name].scratchGiB))
  say(
    `${missing.length} of the cluster's tool modules are not built yet: about ${duration(seconds * 1000)} on two ` +
      `idle processors, and up to ${needed} GiB below ${root} while it builds (${freeGiB(root).toFixed(1)} GiB are free)`,
  )
}

function expectedSecondsOf(name: ModuleName, root: string): number {
  return readDurations(root)[name] ?? TOOL_MODULES[name].expectedSeconds
}

interface Place {
  readonly entry: string
  readonly scratch: string
  readonly goCache: string
  /** The compiler cache is empty, so the duration of this build is recorded. */
  readonly isCold: boolean
  readonly root: string
  readonly say: Say
}

async function buildOne(
  name: ModuleName,
  { entry, scratch, goCache, isCold, root, say }: Place,
): Promise<void> {
  requireSpace(root, TOOL_MODULES[name].scratchGiB)
  const expectedSeconds = expectedSecondsOf(name, root)
  say(`building ${name} (once; about ${duration(expectedSeconds * 1000)})`)
  const progress = createProgress(name, { say, expectedSeconds })
  mkdirSync(goCache, { recursive: true })
  await buildModule({ name, entry, scratch, goCache, progress })
  if (isCold && isOurs(goCache, root)) recordDuration(root, name, progress.elapsedSeconds())
  say(`built ${name} in ${duration(progress.elapsedSeconds() * 1000)}`)
}
