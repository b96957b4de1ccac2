import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import type { FileVersion } from '../../contracts/results.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { foundAt } from '../../runtime/workspace/archive/walk-members.ts'
import { handlePath, readUpTo, withHandle, withHandleAsync } from '../../runtime/workspace/handles.ts'
import { READ_FLAGS } from '../../runtime/workspace/operations/read.ts'
import type { WorkspacePath } from '../../runtime/workspace/parse-path.ts'
import { inParent, openForListing, type Tree } from '../../runtime/workspace/tree.ts'

/** The entry at a path of the user's folder. `other`: a folder, a link, something behind a link, or a file that cannot be replaced. */
export type LocalFile =
  | { readonly kind: 'absent' }
  | { readonly kind: 'other' }
  | {
      readonly kind: 'file'
      readonly version: FileVersion
      readonly mode: number
      readonly bytes: Uint8Array
    }

const ABSENT: LocalFile = { kind: 'absent' }
const OTHER: LocalFile = { kind: 'other' }

export async function readLocal(tree: Tree, path: WorkspacePath): Promise<LocalFile> {
  try {
    const stats = inParent(tree, path, (directory, name) => foundAt(directory, name, path)?.stats)
    if (!stats) return ABSENT
    const isReplaceable = stats.isFile() && stats.nlink === 1n && stats.size <= FILE_LIMITS.maxWriteBytes
    if (!isReplaceable) return OTHER
    const mode = Number(stats.mode & 0o777n)
    const size = Number(stats.size)
    return await withHandleAsync(tree.engine.open(path, READ_FLAGS), async (fd) => {
      const bytes = await readUpTo(fd, 0, size + 1)
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      const version = { mode: mode & 0o100 ? 'executable' : 'file', size: bytes.length, sha256 } as const
      return { kind: 'file', version, mode, bytes }
    })
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return ABSENT
    if (OBSTACLES.has(errnoOf(error) ?? '')) return OTHER
    throw error
  }
}

/** A link, a file or a closed folder on the way. */
const OBSTACLES: ReadonlySet<string> = new Set(['ELOOP', 'ENOTDIR', 'EXDEV', 'EACCES', 'EPERM'])

export const isSameVersion = (a: FileVersion | undefined, b: FileVersion | undefined): boolean =>
  a?.sha256 === b?.sha256 && a?.mode === b?.mode

/** The names in a folder. Empty if it does not exist. */
export function namesIn(tree: Tree, folder: WorkspacePath): string[] {
  try {
    return withHandle(openForListing(tree, folder), (fd) => readdirSync(handlePath(fd)))
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return []
    throw error
  }
}
