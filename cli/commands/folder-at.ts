import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { WorkspaceSource } from '../../contracts/api.ts'
import { errnoOf, messageOf } from '../../runtime/kit/errors.ts'
import { usageError } from '../cli-error.ts'

type Folder = Extract<WorkspaceSource, { kind: 'path' }>

/** The workspace for `--workspace DIR`. */
export async function folderAt(
  folder: string,
  { cwd, inPlace }: { readonly cwd: string; readonly inPlace: boolean },
): Promise<Folder> {
  const path = resolve(cwd, folder)
  try {
    if ((await stat(path)).isDirectory()) return { kind: 'path', path, ...(inPlace && { mode: 'in-place' }) }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw usageError(`The workspace cannot be used: ${messageOf(error)}`)
  }
  throw usageError(`The workspace is not a folder: ${path}`)
}
