import { chmodSync, closeSync, constants, openSync, readdirSync } from 'node:fs'
import { errnoOf } from '../../kit/errors.ts'
import { handlePath, O_PATH } from '../handles.ts'

/**
 * A file name as on Linux: any bytes except `/` and NUL. Stored as latin1, one character per byte, so that a name in
 * any encoding can be a map key and can be opened again.
 */
export type ByteName = string

const FOLDER = constants.O_DIRECTORY | constants.O_NOFOLLOW

/** The path of a name in an open folder, as Node accepts it. */
export const atFolder = (folder: number, name: ByteName): Buffer =>
  Buffer.concat([Buffer.from(`${handlePath(folder)}/`), Buffer.from(name, 'latin1')])

/** Decodes a path for display. */
export const shownPath = (path: ByteName): string => Buffer.from(path, 'latin1').toString('utf8')

/** Opens a folder below another one, name by name, without following links. */
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

/** Lists a folder. If its owner removed the read permission, it is restored: git directories inside still count. */
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
