import { randomBytes } from 'node:crypto'
import { closeSync, constants, lstatSync, openSync, renameSync, unlinkSync } from 'node:fs'
import { errnoOf, SandboxError } from '../kit/errors.ts'
import { FileFault, toFileFault } from './file-fault.ts'
import { atHandle, withHandleAsync, writeFully } from './handles.ts'
import { nameOf, parentOf, parsePath } from './parse-path.ts'
import { makeDirectories, openDirectory, type Tree } from './tree.ts'

const EXCLUSIVE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
/** Reduced by the process's umask. */
const MODES = { plain: 0o666, executable: 0o777 }

export interface ReceivedFile {
  readonly path: string
  readonly content: AsyncIterable<Uint8Array>
  readonly isExecutable: boolean
}

/**
 * Writes a file of any size as its content arrives, with its missing folders. The file appears when it is complete. A
 * regular file at the path is replaced; a link there or above it is not followed. Returns the number of bytes.
 */
export async function receiveFile(tree: Tree, file: ReceivedFile): Promise<number> {
  const path = parsePath(file.path)
  const name = nameOf(path)
  try {
    makeDirectories(tree, parentOf(path))
    return await withHandleAsync(openDirectory(tree, parentOf(path)), async (directory) => {
      requireReplaceable(atHandle(directory, name), path.text)
      const temporary = atHandle(directory, `.agentweaver-${randomBytes(9).toString('base64url')}`)
      const bytes = await fillNewFile(temporary, file)
      try {
        renameSync(temporary, atHandle(directory, name))
      } catch (error) {
        unlinkSync(temporary)
        throw error
      }
      return bytes
    })
  } catch (error) {
    throw isOfContent(error) ? error : toFileFault(error, path.text)
  }
}

/** An error of the source of the content, such as a broken connection, is not one of the file. */
const isOfContent = (error: unknown): boolean => error instanceof SandboxError || errnoOf(error) === undefined

/** A rename would replace a link without following it, but its owner probably wants to keep it. */
function requireReplaceable(at: string, shown: string): void {
  const existing = lstatSync(at, { throwIfNoEntry: false })
  if (existing?.isSymbolicLink()) throw new FileFault('symlink', `${shown} is a symbolic link`)
  if (existing?.isDirectory()) throw new FileFault('not_a_file', `${shown} is a directory`)
  if (existing && !existing.isFile())
    throw new FileFault('special_file', `${shown} is neither a file nor a directory`)
}

async function fillNewFile(at: string, { content, isExecutable }: ReceivedFile): Promise<number> {
  const fd = openSync(at, EXCLUSIVE, isExecutable ? MODES.executable : MODES.plain)
  let bytes = 0
  try {
    for await (const piece of content) {
      await writeFully(fd, piece, bytes)
      bytes += piece.byteLength
    }
    return bytes
  } catch (error) {
    unlinkSync(at)
    throw error
  } finally {
    closeSync(fd)
  }
}
