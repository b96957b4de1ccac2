import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { WorkspaceSource } from '../../contracts/api.ts'
import { errnoOf, messageOf } from '../../runtime/kit/errors.ts'
import { usageError } from '../cli-error.ts'

type Folder = Extract<WorkspaceSource, { kind: 'path' }>

type FolderOptions = { readonly workspace?: string | undefined; readonly inPlace: boolean }

/** The workspace for `--workspace DIR` and `--in-place`. Undefined without them. */
export async function folderAt(
  { workspace, inPlace }: FolderOptions,
  cwd: string,
): Promise<Folder | undefined> {
  if (workspace !== undefined)
    return { kind: 'path', path: await folderPath(workspace, cwd), ...(inPlace && { mode: 'in-place' }) }
  if (inPlace) throw usageError('--in-place is for a folder: give it with --workspace DIR.')
  return undefined
}

/** The absolute path of a folder. Fails if it is not a folder. */
export async function folderPath(folder: string, cwd: string): Promise<string> {
  const path = resolve(cwd, folder)
  try {
    if ((await stat(path)).isDirectory()) return path
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw usageError(`The workspace cannot be used: ${messageOf(error)}`)
  }
  throw usageError(`The workspace is not a folder: ${path}`)
}
