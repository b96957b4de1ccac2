import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync } from 'node:fs'
import { errnoOf } from '../../kit/errors.ts'
import { FileFault } from '../file-fault.ts'
import { atHandle, handlePath, O_PATH } from '../handles.ts'
import type { WorkspacePath } from '../parse-path.ts'
import type { PathEngine, Root } from './path-engine.ts'

const STEP = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * The engine for kernels and sandboxes without `openat2`. It opens the path name by name, holds a handle on
 * each directory, follows no link, and finally checks where the handle really is.
 */
export function createWalkEngine(root: Root): PathEngine {
  return {
    name: 'walk',
    open(path, flags, mode) {
      const fd = openBelow(root, path, { flags, mode })
      if (liesBelow(root, fd)) return fd
      closeSync(fd)
      throw new FileFault('path_outside', `${path.text} lies outside the workspace`)
    },
  }
}

function openBelow(
  root: Root,
  path: WorkspacePath,
  how: { flags: number; mode: number | undefined },
): number {
  const last = path.names.at(-1)
  if (last === undefined) return openSync(handlePath(root.fd), how.flags, how.mode)
  let directory = root.fd
  try {
    for (const name of path.names.slice(0, -1)) {
      const next = openName(directory, name, { flags: STEP, mode: undefined })
      if (directory !== root.fd) closeSync(directory)
      directory = next
    }
    return openName(directory, last, how)
  } finally {
    if (directory !== root.fd) closeSync(directory)
  }
}

/** Opens one name in an open directory. Reports a link as ELOOP, not as ENOTDIR. */
function openName(
  directory: number,
  name: string,
  { flags, mode }: { flags: number; mode: number | undefined },
): number {
  const at = atHandle(directory, name)
  try {
    return refuseLink(openSync(at, flags | constants.O_NOFOLLOW, mode), flags)
  } catch (error) {
    const isLink = errnoOf(error) === 'ENOTDIR' && isSymbolicLink(at)
    if (isLink) throw Object.assign(new Error(`ELOOP: open '${name}'`, { cause: error }), { code: 'ELOOP' })
    throw error
  }
}

/** With O_PATH, the kernel opens the link itself instead of failing. */
function refuseLink(fd: number, flags: number): number {
  if ((flags & O_PATH) === 0 || !fstatSync(fd).isSymbolicLink()) return fd
  closeSync(fd)
  throw Object.assign(new Error('ELOOP: open'), { code: 'ELOOP' })
}

const isSymbolicLink = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true

/** Compares with the root's current path, so that the check also holds after the root was moved. */
function liesBelow(root: Root, fd: number): boolean {
  const top = readlinkSync(handlePath(root.fd))
  const real = readlinkSync(handlePath(fd))
  return real === top || real.startsWith(`${top}/`)
}
