import type { FileError, FileErrorCode } from '../../contracts/files.ts'
import { errnoOf, messageOf } from '../kit/errors.ts'

/** A rejected or failed operation. Thrown inside the engine; `perform` returns it as a result. */
export class FileFault extends Error {
  readonly code: FileErrorCode

  constructor(code: FileErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'FileFault'
    this.code = code
  }
}

/** Creates a fault with a cause. */
export const faultFrom = (cause: unknown, code: FileErrorCode, message: string): FileFault =>
  new FileFault(code, message, { cause })

const BY_ERRNO: Readonly<Record<string, readonly [FileErrorCode, string]>> = {
  ENOENT: ['not_found', 'does not exist'],
  ELOOP: ['symlink', 'is a symbolic link, or lies behind one; links are not followed'],
  EXDEV: ['path_outside', 'lies outside the workspace'],
  ENOTDIR: ['not_a_directory', 'is not a directory, or lies below a file'],
  EISDIR: ['not_a_file', 'is a directory'],
  EEXIST: ['exists', 'exists already'],
  ENOTEMPTY: ['not_empty', 'is not empty'],
  ENAMETOOLONG: ['path_too_long', 'is too long'],
  ENXIO: ['special_file', 'is neither a file nor a directory'],
  EACCES: ['denied', 'cannot be accessed: permission denied'],
  EPERM: ['denied', 'cannot be accessed: permission denied'],
  EROFS: ['denied', 'is on a read-only file system'],
  ETXTBSY: ['denied', 'is being executed'],
  EINVAL: ['denied', 'does not permit this operation'],
  ENOSPC: ['io_error', 'cannot be written: no space is left'],
  EDQUOT: ['io_error', 'cannot be written: the disk quota is used up'],
  EMFILE: ['io_error', 'cannot be opened: too many files are open'],
}

/**
 * Converts an error to a result. An unexpected error becomes an `io_error` with its message, so that bugs stay
 * visible.
 */
export function toFileError(error: unknown, path: string): FileError {
  if (error instanceof FileFault) return { ok: false, code: error.code, message: error.message }
  const known = BY_ERRNO[errnoOf(error) ?? '']
  if (known) return { ok: false, code: known[0], message: `${path} ${known[1]}` }
  return { ok: false, code: 'io_error', message: `${path}: ${messageOf(error)}` }
}

/** Converts an error to a FileFault, for callers that rethrow. */
export function toFileFault(error: unknown, path: string): FileFault {
  if (error instanceof FileFault) return error
  const { code, message } = toFileError(error, path)
  return faultFrom(error, code, message)
}
