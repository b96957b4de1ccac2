import { readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** These entries can be rebuilt in seconds, so they are not kept for long. */
const UNUSED_MS = 3_600_000

/** Removes the entries of a folder that have not been used for an hour and whose name begins with `prefix`. */
export function dropUnused(folder: string, prefix = ''): void {
  for (const name of readdirSync(folder).filter((entry) => entry.startsWith(prefix))) {
    // Another process may have removed the entry in the meantime.
    const usedAt = statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Date.now() - usedAt > UNUSED_MS) rmSync(join(folder, name), { recursive: true, force: true })
  }
}
