import { constants } from 'node:fs'
import type { FileOperation } from '../../../contracts/files.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import type { FileAnswer } from '../../../contracts/toolbox.ts'
import { FileFault } from '../file-fault.ts'
import { entryOf, readUpTo, regularFile, withHandleAsync } from '../handles.ts'
import { parsePath } from '../parse-path.ts'
import type { Tree } from '../tree.ts'

/** Without O_NONBLOCK, opening a FIFO would block the process until another process writes to it. */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY

/** Reads a file, or the requested range of it. */
export function readFile(tree: Tree, operation: FileOperation & { op: 'read' }): Promise<FileAnswer> {
  const path = parsePath(operation.path)
  return withHandleAsync(tree.engine.open(path, READ_FLAGS), async (fd) => {
    const stats = regularFile(fd, path.text)
    const offset = operation.offset ?? 0
    const available = Math.max(0, stats.size - offset)
    const length = Math.min(available, operation.length ?? available)
    if (length > FILE_LIMITS.maxReadBytes) {
      throw new FileFault(
        'too_large',
        `${path.text} has ${stats.size} bytes; read at most ${FILE_LIMITS.maxReadBytes} at a time`,
      )
    }
    const payload = await readUpTo(fd, offset, length)
    return { result: { ok: true, entry: entryOf(path.text, stats) }, payload }
  })
}
