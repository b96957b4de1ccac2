import { statfsSync } from 'node:fs'
import { HarnessError } from '../harness-error.ts'

const GIB = 1024 ** 3

/** Refuses a build that would fill the disk: told before it starts rather than twenty minutes later. */
export function requireSpace(folder: string, neededGiB: number): void {
  const { bavail, bsize } = statfsSync(folder)
  const freeGiB = (bavail * bsize) / GIB
  if (freeGiB >= neededGiB) return
  throw new HarnessError(
    `building needs ${neededGiB} GiB of free space below ${folder}, and ${freeGiB.toFixed(1)} GiB are left. ` +
      'Free some space, or point XDG_CACHE_HOME at a larger disk',
  )
}
