import { fstatSync } from 'node:fs'
import { FileFault } from './file-fault.ts'
import { readUpTo } from './handles.ts'
import type { WorkspacePath } from './parse-path.ts'

const PIECE_BYTES = 65_536

/** Yields exactly `size` bytes. A file that grew is truncated; a file that shrank is an error. */
export async function* contentOf(
  fd: number,
  path: WorkspacePath,
  { size, pieceBytes = PIECE_BYTES }: { readonly size: number; readonly pieceBytes?: number },
): AsyncGenerator<Uint8Array> {
  for (let position = 0; position < size; ) {
    const piece = await readUpTo(fd, position, Math.min(pieceBytes, size - position))
    if (piece.length === 0) {
      throw new FileFault('io_error', `${path.text} shrank to ${fstatSync(fd).size} bytes while it was read`)
    }
    yield piece
    position += piece.length
  }
}
