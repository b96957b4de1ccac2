import type { Stats } from 'node:fs'
import { lstat, mkdir, rmdir, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoOf } from '../kit/errors.ts'
import { absent } from './read-data.ts'
import type { Placeholder } from './run-folder.ts'

/**
 * Creates an empty file or folder, with missing parents, so that it can be mounted over. Git treats an empty
 * file or folder like a missing one.
 */
export async function makePlaceholder(
  root: string,
  path: string,
  kind: 'file' | 'folder',
): Promise<Placeholder[]> {
  const made: Placeholder[] = []
  const parts = path.split('/')
  for (const [index] of parts.entries()) {
    const one = parts.slice(0, index + 1).join('/')
    const isLast = index === parts.length - 1
    if (await lstat(join(root, one)).catch(absent)) continue
    const making =
      isLast && kind === 'file' ? writeFile(join(root, one), '', { flag: 'wx' }) : mkdir(join(root, one))
    // Another run in this folder may have created it at the same moment.
    if (!(await making.then(() => true, isThere))) continue
    made.push({ path: one, identity: await identityOf(join(root, one)) })
  }
  return made
}

/** False if the place exists. */
function isThere(error: unknown): boolean {
  if (errnoOf(error) !== 'EEXIST') throw error
  return false
}

/** Removes placeholders that are still empty and unchanged. Anything else belongs to the user by now. */
export async function removePlaceholders(root: string, placeholders: readonly Placeholder[]): Promise<void> {
  for (const { path, identity } of [...placeholders].reverse()) {
    const place = join(root, path)
    const stats = await lstat(place).catch(absent)
    if (stats && (await identityOf(place)) === identity) await removeEmpty(place, stats)
  }
}

async function removeEmpty(place: string, stats: Stats): Promise<void> {
  try {
    if (stats.isDirectory()) await rmdir(place)
    else if (stats.size === 0) await unlink(place)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT', 'EACCES', 'EBUSY'].includes(errnoOf(error) ?? '')) throw error
  }
}

async function identityOf(path: string): Promise<string> {
  const { dev, ino } = await lstat(path, { bigint: true })
  return `${dev}:${ino}`
}
