import { createHmac } from 'node:crypto'
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { equalsInConstantTime } from '../kit/constant-time.ts'
import { errnoOf } from '../kit/errors.ts'

const KEY_FILE = 'seal-key'
const KEY_BYTES = 32
const SHARED_BITS = 0o077

/** Name of the file with the seal in a state folder of an earlier version. */
export const SEAL_FILE = 'seal'

type Folder = Pick<BigIntStats, 'ino' | 'birthtimeNs'>

/**
 * Earlier versions kept their state in `.agentweaver/` of a project, and sealed that folder at its creation. The seal
 * is a MAC over the folder's inode number and its creation time in nanoseconds, with a key in the user's home. A copy
 * from an archive or a repository has other numbers. A command in a sandbox can read the numbers of a folder that it
 * creates, but has no key.
 */
export const folderSeal = ({ ino, birthtimeNs }: Folder, key: Uint8Array): string =>
  `${createHmac('sha256', key).update(`agentweaver/seal/v1 ${ino} ${birthtimeNs}`).digest('hex')}\n`

export const isSealOf = (seal: string, folder: Folder, key: Uint8Array): boolean =>
  equalsInConstantTime(seal, folderSeal(folder, key))

/** The folder at home with the key; no workspace may hold it or lie in it. */
export const sealKeyFolder = (home: string): string => join(home, '.agentweaver')

/** Returns the user's key, or undefined if no key file exists that only this user can use. */
export function readSealKey(home: string): Uint8Array | undefined {
  let file: number
  try {
    file = openSync(
      join(sealKeyFolder(home), KEY_FILE),
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    )
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return undefined
  }
  try {
    const { uid, mode, size } = fstatSync(file)
    const isOwn = uid === process.getuid?.() && (mode & SHARED_BITS) === 0
    return isOwn && size === KEY_BYTES ? readFileSync(file) : undefined
  } finally {
    closeSync(file)
  }
}
