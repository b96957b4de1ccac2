import { lstat } from 'node:fs/promises'

/** Which folder a path names now, as `stat -c %d:%i` writes it: the name can be given to another one later. */
export async function folderIdentity(path: string): Promise<string> {
  const { dev, ino } = await lstat(path, { bigint: true })
  return `${dev}:${ino}`
}
