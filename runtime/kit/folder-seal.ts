import { createHmac, randomBytes } from 'node:crypto'
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { errnoOf } from './errors.ts'

const KEY_FOLDER = '.agentweaver'
const KEY_FILE = 'seal-key'
const KEY_BYTES = 32
const SHARED_BITS = 0o077

type Folder = Pick<BigIntStats, 'ino' | 'birthtimeNs'>

/**
 * What only this very folder has and only this user can say: a MAC over its number and the nanosecond of its making,
 * under a key at the user's home. A copy that an archive brings has other numbers; a command in a sandbox, which can
 * read the numbers of a folder that it makes, has no key.
 */
export const folderSeal = ({ ino, birthtimeNs }: Folder, key: Uint8Array): string =>
  `${createHmac('sha256', key).update(`agentweaver/seal/v1 ${ino} ${birthtimeNs}`).digest('hex')}\n`

/** The folder at home with the key; no workspace may hold it or lie in it. */
export const sealKeyFolder = (home: string): string => join(home, KEY_FOLDER)

/** The user's key, or undefined where there is none that is theirs alone. */
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

/** The same, made where there is none; undefined where the home cannot be written. */
export function ensureSealKey(home: string): Uint8Array | undefined {
  const known = readSealKey(home)
  if (known) return known
  const folder = sealKeyFolder(home)
  const temporary = join(folder, `${KEY_FILE}.${randomBytes(6).toString('hex')}`)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(temporary, randomBytes(KEY_BYTES), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return undefined
  }
  try {
    linkSync(temporary, join(folder, KEY_FILE))
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
  } finally {
    unlinkSync(temporary)
  }
  return readSealKey(home)
}
