import type { BigIntStats } from 'node:fs'

/**
 * What only this very folder has: its number and the nanosecond of its making. A copy that an archive or a
 * repository brings has others, and nobody can know beforehand which.
 */
export const folderSeal = ({ ino, birthtimeNs }: Pick<BigIntStats, 'ino' | 'birthtimeNs'>): string =>
  `${ino}-${birthtimeNs}\n`
