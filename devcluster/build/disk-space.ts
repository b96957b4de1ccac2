import { statfsSync } from 'node:fs'
import { HarnessError } from '../harness-error.ts'

const GIB = 1024 ** 3

/** GiB that this user can still write below `folder`. */
export function freeGiB(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return (bavail * bsize) / GIB
}

/**
 * Rejects a build that would fill the disk before it starts. Otherwise the build would fail after about twenty minutes.
 */
export function requireSpace(folder: string, neededGiB: number): void {
  const free = freeGiB(folder)
  if (free >= neededGiB) return
  throw new HarnessError(
    `building needs ${neededGiB} GiB of free space below ${folder}, and ${free.toFixed(1)} GiB are left. ` +
      'Free some space, or point XDG_CACHE_HOME at a larger disk',
  )
}
