import * as fs from 'node:fs'
import { closeSync, fstatSync, type Stats } from 'node:fs'
import { promisify } from 'node:util'
import type { FileEntry } from '../../contracts/files.ts'
import { FileFault } from './file-fault.ts'

/** Not in Node's constants. Opens a handle for stat and for opening children, without read access. */
export const O_PATH = 0o10000000

/** Content up to this size is copied in one synchronous call, which is faster than switching to another thread. */
const SYNC_BYTES = 65_536

/** The kernel resolves this path to the open file, wherever it was moved. */
export const handlePath = (fd: number): string => `/proc/self/fd/${fd}`

/** A name in an open directory: the equivalent of `openat`. */
export const atHandle = (directory: number, name: string): string => `${handlePath(directory)}/${name}`

/** Runs `work` with a descriptor and closes the descriptor. */
export function withHandle<T>(fd: number, work: (fd: number) => T): T {
  try {
    return work(fd)
  } finally {
    closeSync(fd)
  }
}

export async function withHandleAsync<T>(fd: number, work: (fd: number) => Promise<T>): Promise<T> {
  try {
    return await work(fd)
  } finally {
    closeSync(fd)
  }
}

export function entryOf(path: string, stats: Stats): FileEntry {
  return { path, type: typeOf(stats), size: stats.size, mtimeMs: stats.mtimeMs, mode: stats.mode & 0o7777 }
}

function typeOf(stats: Stats): FileEntry['type'] {
  if (stats.isFile()) return 'file'
  if (stats.isDirectory()) return 'directory'
  return stats.isSymbolicLink() ? 'symlink' : 'other'
}

/** Returns the stats of a regular file. Throws for every other kind. */
export function regularFile(fd: number, path: string): Stats {
  const stats = fstatSync(fd)
  if (stats.isFile()) return stats
  if (stats.isDirectory()) throw new FileFault('not_a_file', `${path} is a directory`)
  throw new FileFault('special_file', `${path} is neither a file nor a directory`)
}

const readAsync = promisify(fs.read)
const writeAsync = promisify(fs.write)

/** Reads up to `length` bytes from `position`; fewer at the end of the file. */
export async function readUpTo(fd: number, position: number, length: number): Promise<Uint8Array> {
  const buffer = Buffer.allocUnsafe(length)
  let filled = 0
  while (filled < length) {
    const rest = { offset: filled, length: length - filled, position: position + filled }
    const bytes =
      length <= SYNC_BYTES
        ? fs.readSync(fd, buffer, rest)
        : (await readAsync(fd, buffer, rest.offset, rest.length, rest.position)).bytesRead
    if (bytes === 0) break
    filled += bytes
  }
  return buffer.subarray(0, filled)
}

export async function writeFully(fd: number, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0
  while (done < bytes.length) {
    done +=
      bytes.length <= SYNC_BYTES
        ? fs.writeSync(fd, bytes, done, bytes.length - done, position + done)
        : (await writeAsync(fd, bytes, done, bytes.length - done, position + done)).bytesWritten
  }
}
