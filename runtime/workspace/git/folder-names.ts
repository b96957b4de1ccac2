import { chmodSync, closeSync, constants, openSync, readdirSync } from 'node:fs'
import { errnoOf } from '../../kit/errors.ts'
import { handlePath, O_PATH } from '../handles.ts'

/**
 * Names as Linux has them: any bytes but `/` and NUL. A string holds one byte per character (latin1), so that every
 * name can be a key and can be opened again, whatever its encoding.
 */
export type ByteName = string

const FOLDER = constants.O_DIRECTORY | constants.O_NOFOLLOW

/** A name in a held folder, as Node opens it. */
export const atFolder = (folder: number, name: ByteName): Buffer =>
  Buffer.concat([Buffer.from(`${handlePath(folder)}/`), Buffer.from(name, 'latin1')])

/** A path for people. */
export const shownPath = (path: ByteName): string => Buffer.from(path, 'latin1').toString('utf8')

/** A handle on a folder below another one. It is walked name by name, and no link is followed. */
export function openFolderBelow(root: number, path: ByteName): number {
  let folder = openSync(handlePath(root), O_PATH | constants.O_DIRECTORY)
  try {
    for (const name of path.split('/').filter(Boolean)) {
      const next = openSync(atFolder(folder, name), O_PATH | FOLDER)
      closeSync(folder)
      folder = next
    }
  } catch (error) {
    closeSync(folder)
    throw error
  }
  return folder
}

export interface FolderEntry {
  readonly name: ByteName
  readonly isFolder: boolean
}

/** What lies in a folder. One that its owner may not list is made so that he may: its names count all the same. */
export function entriesBelow(root: number, path: ByteName): FolderEntry[] {
  const handle = openFolderBelow(root, path)
  try {
    return listFolder(handle)
  } catch (error) {
    if (errnoOf(error) !== 'EACCES') throw error
    chmodSync(handlePath(handle), 0o700)
    return listFolder(handle)
  } finally {
    closeSync(handle)
  }
}

const listFolder = (handle: number): FolderEntry[] =>
  readdirSync(handlePath(handle), { withFileTypes: true, encoding: 'buffer' }).map((entry) => ({
    name: entry.name.toString('latin1'),
    isFolder: entry.isDirectory(),
  }))
