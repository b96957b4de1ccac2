import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Short, because these entries can be rebuilt in seconds. */
const UNUSED_MS = 3_600_000

/** Deletes the entries of a folder whose name starts with `prefix` and that were not used for an hour. */
export function dropUnused(folder: string, prefix = ''): void {
  for (const name of readdirSync(folder).filter((entry) => entry.startsWith(prefix))) {
    // Another process may have deleted the entry in the meantime.
    const usedAt = statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Date.now() - usedAt > UNUSED_MS) rmSync(join(folder, name), { recursive: true, force: true })
  }
}
