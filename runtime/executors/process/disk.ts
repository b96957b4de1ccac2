import { stat, statfs } from 'node:fs/promises'

/** Bytes on a disk, and number of files. */
export interface Amount {
  readonly bytes: number
  readonly files: number
}

/** Used and free space of one file system. */
export interface Disk {
  readonly bytes: number
  /** Undefined for file systems that do not count files, such as btrfs. */
  readonly files: number | undefined
  readonly freeBytes: number
  readonly totalBytes: number
}

/** Space that is left to other programs: this many bytes, or one percent of a small file system. */
const RESERVE = { bytes: 268_435_456, share: 0.01 } as const

/** The file systems of folders, by device. */
export async function disksOf(folders: readonly string[]): Promise<ReadonlyMap<number, Disk>> {
  const found = new Map<number, Disk>()
  for (const path of folders) {
    const { dev } = await stat(path)
    if (!found.has(dev)) found.set(dev, await diskAt(path))
  }
  return found
}

async function diskAt(path: string): Promise<Disk> {
  const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(path)
  return {
    bytes: (blocks - bfree) * bsize,
    files: files === 0 ? undefined : files - ffree,
    freeBytes: bavail * bsize,
    totalBytes: blocks * bsize,
  }
}

export const isAlmostFull = ({ freeBytes, totalBytes }: Disk): boolean =>
  freeBytes < Math.min(RESERVE.bytes, totalBytes * RESERVE.share)

/** The number of files is infinite for a file system that does not count files. */
export const growthOf = (before: Disk, after: Disk): Amount => ({
  bytes: after.bytes - before.bytes,
  files: pairOf(before, after, (one, other) => other - one) ?? Number.POSITIVE_INFINITY,
})

/** The lower use of two measurements. */
export const leastOf = (before: Disk, after: Disk): Disk => ({
  ...after,
  bytes: Math.min(before.bytes, after.bytes),
  files: pairOf(before, after, Math.min),
})

function pairOf(
  { files: before }: Disk,
  { files: after }: Disk,
  combine: (before: number, after: number) => number,
): number | undefined {
  return before === undefined || after === undefined ? undefined : combine(before, after)
}

export const isOver = ({ bytes, files }: Amount, limits: Amount): boolean =>
  bytes >= limits.bytes || files >= limits.files
