import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf } from '../kit/errors.ts'

/** Permissions of the group and of other users. A private folder grants none of them. */
const SHARED_BITS = 0o077
/** Far more than any of the small files in these folders has. */
const MAX_FILE_BYTES = 65_536

/** A folder, a file or a socket that is not used, and why, in words for people. */
export class Distrust extends Error {
  readonly path: string
  readonly reason: string

  constructor(reason: string, { path, cause }: { readonly path: string; readonly cause?: unknown }) {
    super(`${path} is not used: ${reason}.`, { cause })
    this.name = 'Distrust'
    this.path = path
    this.reason = reason
  }
}

/**
 * A folder that only its owner, this user, can use. The folder is held open, so the checked folder is the used folder
 * even if another user can rename a parent folder.
 */
export interface PrivateFolder extends Disposable {
  readonly path: string
  /** A path to an entry of this very folder. It is short, and valid in this process until the folder is disposed. */
  at(name: string): string
  /**
   * Returns the content of a small file, or undefined if the file does not exist. Throws `Distrust` if it is not a
   * private file.
   */
  readFile(name: string): string | undefined
  /** Whether a private Unix socket exists. Throws `Distrust` if the name belongs to any other kind of file. */
  hasSocket(name: string): boolean
}

/**
 * Opens a folder; returns undefined if it does not exist. Throws `Distrust` if other users can use it, or if it is a
 * link.
 */
export function openPrivateFolder(path: string): PrivateFolder | undefined {
  const descriptor = openDirectory(path)
  if (descriptor === undefined) return undefined
  try {
    requirePrivate(path, fstatSync(descriptor))
  } catch (error) {
    closeSync(descriptor)
    throw error
  }
  const at = (name: string) => `/proc/self/fd/${descriptor}/${name}`
  return {
    path,
    at,
    readFile: (name) => readPrivateFile(at(name), join(path, name)),
    hasSocket: (name) => isPrivateSocket(at(name), join(path, name)),
    [Symbol.dispose]: () => closeSync(descriptor),
  }
}

function openDirectory(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  } catch (error) {
    const errno = errnoOf(error)
    if (errno === 'ENOENT') return undefined
    if (errno === 'ENOTDIR' || errno === 'ELOOP')
      throw new Distrust('it is not a folder, or it is a link', { path, cause: error })
    throw new Distrust(`it cannot be opened (${errno ?? 'unknown'})`, { path, cause: error })
  }
}

type Owned = { readonly uid: number; readonly mode: number }

function requirePrivate(path: string, { uid, mode }: Owned): void {
  if (uid !== process.getuid?.()) throw new Distrust('it belongs to another user', { path })
  if ((mode & SHARED_BITS) !== 0) throw new Distrust('it can be used by others than its owner', { path })
}

function readPrivateFile(at: string, path: string): string | undefined {
  let file: number
  try {
    // O_NONBLOCK: opening a pipe in its place must not wait for a writer.
    file = openSync(at, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw new Distrust(`it cannot be read (${errnoOf(error) ?? 'unknown'})`, { path, cause: error })
  }
  try {
    const found = fstatSync(file)
    if (!found.isFile() || found.size > MAX_FILE_BYTES)
      throw new Distrust('it is not a file of a service', { path })
    requirePrivate(path, found)
    return readFileSync(file, 'utf8')
  } finally {
    closeSync(file)
  }
}

function isPrivateSocket(at: string, path: string): boolean {
  const found = lstatSync(at, { throwIfNoEntry: false })
  if (!found) return false
  if (!found.isSocket()) throw new Distrust('it is not a socket', { path })
  requirePrivate(path, found)
  return true
}
