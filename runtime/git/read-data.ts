import { constants, type Stats } from 'node:fs'
import { lstat, open } from 'node:fs/promises'
import { errnoOf } from '../kit/errors.ts'

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** A file in a git directory that git would not have written. The message names the file. */
export class NotData extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'NotData'
  }
}

/**
 * Reads a small file as data: follows no link, does not block, and reads at most `maxBytes`. Undefined if the
 * file does not exist.
 */
export async function readData(path: string, maxBytes: number): Promise<Buffer | undefined> {
  try {
    await using file = await open(path, READ)
    const { size } = requireFile(await file.stat(), path)
    if (size > maxBytes) throw new NotData(`${path} is larger than ${maxBytes} bytes`)
    const buffer = Buffer.alloc(size)
    const { bytesRead } = await file.read(buffer, 0, size, 0)
    return buffer.subarray(0, bytesRead)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
    if (errnoOf(error) === 'ELOOP') throw notData(`${path} is a symbolic link`, error)
    throw error
  }
}

/** Reads a small text file of one line. Throws `NotData` if it has more lines, because git reads them as part of the path. */
export async function readLine(path: string): Promise<string | undefined> {
  const line = (await readData(path, 65_536))?.toString('utf8').replace(/[\r\n]+$/, '')
  if (line !== undefined && /[\r\n]/.test(line)) throw new NotData(`${path} has more than one line`)
  return line
}

export async function kindOf(path: string): Promise<'file' | 'folder' | 'link' | 'other' | undefined> {
  const stats = await lstat(path).catch(absent)
  if (!stats) return undefined
  if (stats.isSymbolicLink()) return 'link'
  if (stats.isDirectory()) return 'folder'
  return stats.isFile() ? 'file' : 'other'
}

const notData = (message: string, cause: unknown) => new NotData(message, { cause })

function requireFile(stats: Stats, path: string): Stats {
  if (stats.isFile()) return stats
  throw new NotData(`${path} is not a file`)
}

export function absent(error: unknown): undefined {
  if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined
  throw error
}
