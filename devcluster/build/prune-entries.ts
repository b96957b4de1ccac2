import { existsSync, readdirSync, readlinkSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { MODULE_NAMES } from './modules.ts'

/** A clone that is idle for longer builds its tools again, which takes minutes. */
const UNUSED_MS = 14 * 24 * 3_600_000
/** The current entry of a module and two others, enough to switch between branches. */
const KEPT_PER_MODULE = 3

const ENTRY = new RegExp(`^(${MODULE_NAMES.join('|')})-[0-9a-f]{20}$`)

/** Marks a cache entry as used. Returns whether it exists. */
export function touchEntry(entry: string, now = new Date()): boolean {
  try {
    utimesSync(entry, now, now)
    return true
  } catch {
    // A read-only cache, or a cache of another user, can still be used.
    return existsSync(entry)
  }
}

/**
 * Deletes cache entries that were not used for a fortnight, and all but the last three used entries of each module.
 * Keeps entries that a running program was started from. The caller must hold the build lock.
 */
export function pruneEntries(root: string, scratch: string, now = Date.now()): string[] {
  const inUse = foldersOfRunningPrograms()
  const doomed = oldEntries(root, now).filter((name) => !inUse.has(join(root, name)))
  for (const name of doomed) {
    // A single rename, so no other process sees a half-deleted entry.
    renameSync(join(root, name), join(scratch, name))
    rmSync(join(scratch, name), { recursive: true, force: true })
  }
  return doomed
}

function oldEntries(root: string, now: number): string[] {
  const entries = readdirSync(root)
    .filter((name) => ENTRY.test(name))
    .map((name) => ({ name, usedAt: statSync(join(root, name)).mtimeMs }))
    .sort((a, b) => b.usedAt - a.usedAt)
  const newer = new Map<string, number>()
  return entries
    .filter(({ name, usedAt }) => {
      const module = ENTRY.exec(name)?.[1] ?? ''
      newer.set(module, (newer.get(module) ?? 0) + 1)
      return now - usedAt > UNUSED_MS || (newer.get(module) ?? 0) > KEPT_PER_MODULE
    })
    .map(({ name }) => name)
}

/** The folders two levels above the programs that run: `<entry>/bin/<program>`. */
function foldersOfRunningPrograms(): Set<string> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return new Set(pids.map((pid) => join(programOf(pid), '..', '..')))
}

/**
 * The process has ended, is a kernel thread, or belongs to another user, whose programs run from that user's own cache.
 */
const UNREADABLE = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

function programOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/exe`)
  } catch (error) {
    if (UNREADABLE.has((error as NodeJS.ErrnoException).code ?? '')) return '/'
    throw error
  }
}
