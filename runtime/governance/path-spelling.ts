import type { FileErrorCode } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'

export type PathSpelling =
  | { readonly ok: true }
  | { readonly ok: false; readonly code: FileErrorCode; readonly message: string }

type Check = readonly [FileErrorCode, (path: string) => boolean, string]

/**
 * Spellings that name something other than a path below the workspace on Linux or any other system. Stricter
 * than the workspace engine, because this check does not see the file system.
 */
const CHECKS: readonly Check[] = [
  ['path_empty', (path) => path === '', 'is empty; the workspace itself is "."'],
  ['path_nul', (path) => path.includes('\0'), 'contains a NUL character'],
  ['denied', (path) => !path.isWellFormed(), 'is not well-formed Unicode'],
  ['path_too_long', (path) => Buffer.byteLength(path) > FILE_LIMITS.maxPathBytes, 'is too long'],
  ['path_device', (path) => /^[\\/]{2}[?.](?:[\\/]|$)|^[\\/]\?\?[\\/]/.test(path), 'names a device'],
  ['path_absolute', (path) => /^[\\/]/.test(path), 'is absolute; write it relative to the workspace'],
  ['path_absolute', (path) => /^[A-Za-z]:/.test(path), 'names a drive'],
  ['path_outside', (path) => path.split(/[\\/]/).some((name) => name.trim() === '..'), 'contains ".."'],
  ['path_stream', (path) => path.includes(':'), 'contains ":"'],
]

/** Checks a relative path by its spelling alone. */
export function checkPathSpelling(path: string): PathSpelling {
  for (const [code, refuses, reason] of CHECKS) {
    if (refuses(path)) return { ok: false, code, message: `${shown(path)} ${reason}` }
  }
  return { ok: true }
}

const shown = (path: string) => JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…` : path)
