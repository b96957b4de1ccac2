import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  openSync,
  renameSync,
  type Stats,
  unlinkSync,
} from 'node:fs'
import type { FileEntry, FileOperation, FileResult } from '../../../contracts/files.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import { errnoOf } from '../../kit/errors.ts'
import { FileFault } from '../file-fault.ts'
import { atHandle, entryOf, regularFile, withHandle, withHandleAsync, writeFully } from '../handles.ts'
import { nameOf, parentOf, parsePath, type WorkspacePath } from '../parse-path.ts'
import { makeDirectories, openDirectory, type Tree } from '../tree.ts'

const EXCLUSIVE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
/** Opens an existing file for writing without truncating it or blocking. */
const VERIFY = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY
/** Reduced by the process's umask. */
const NEW_FILE_MODE = 0o666
const PERMISSION_BITS = 0o777

export interface NewContent {
  readonly bytes: Uint8Array
  readonly create: (FileOperation & { op: 'write' })['create']
  readonly mode?: number | undefined
}

/** Creates or replaces a file atomically: readers see the old content or the new content, never a mix. */
export async function writeFile(
  tree: Tree,
  operation: FileOperation & { op: 'write' },
  bytes: Uint8Array,
): Promise<FileResult> {
  const path = parsePath(operation.path)
  nameOf(path)
  if (bytes.length > FILE_LIMITS.maxWriteBytes) {
    throw new FileFault(
      'too_large',
      `${path.text}: at most ${FILE_LIMITS.maxWriteBytes} bytes can be written`,
    )
  }
  const existing = verifyTarget(tree, path, operation.create)
  if (!existing && operation.parents) makeDirectories(tree, parentOf(path))
  const mode = operation.mode ?? (existing ? existing.mode & PERMISSION_BITS : undefined)
  const content = { bytes, create: operation.create, mode }
  return { ok: true, entry: await putFile(tree, path, content) }
}

/** Checks the file at the target through its own handle. Returns undefined if the file does not exist. */
function verifyTarget(tree: Tree, path: WorkspacePath, create: NewContent['create']): Stats | undefined {
  let fd: number
  try {
    fd = tree.engine.open(path, VERIFY)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' && create !== 'never') return undefined
    throw error
  }
  return withHandle(fd, () => {
    if (create === 'exclusive') throw new FileFault('exists', `${path.text} exists already`)
    const stats = regularFile(fd, path.text)
    if (stats.nlink <= 1) return stats
    throw new FileFault(
      'hard_link',
      `${path.text} has other names (hard links), which a write would not reach`,
    )
  })
}

async function putFile(tree: Tree, path: WorkspacePath, content: NewContent): Promise<FileEntry> {
  const name = nameOf(path)
  return withHandleAsync(openDirectory(tree, parentOf(path)), async (directory) => {
    const target = atHandle(directory, name)
    if (content.create === 'exclusive') return fillNewFile(target, path, content)
    const temporary = atHandle(directory, `.agentweaver-${randomBytes(9).toString('base64url')}`)
    const entry = await fillNewFile(temporary, path, content)
    try {
      renameSync(temporary, target)
    } catch (error) {
      unlinkSync(temporary)
      throw error
    }
    return entry
  })
}

/** Creates a new file and fills it. Deletes it again on failure. */
async function fillNewFile(at: string, path: WorkspacePath, content: NewContent): Promise<FileEntry> {
  const fd = openSync(at, EXCLUSIVE, content.mode ?? NEW_FILE_MODE)
  try {
    // `open()` applied the umask, so the requested mode is set explicitly.
    if (content.mode !== undefined) fchmodSync(fd, content.mode)
    await writeFully(fd, content.bytes, 0)
    return entryOf(path.text, fstatSync(fd))
  } catch (error) {
    unlinkSync(at)
    throw error
  } finally {
    closeSync(fd)
  }
}
