import type { FileErrorCode } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { FileFault } from './file-fault.ts'

/** A path that passed all spelling checks: names below the root, none of them `.`, `..` or empty. */
export interface WorkspacePath {
  readonly names: readonly string[]
  /** The names joined with `/`, or `.` for the root. */
  readonly text: string
}

/** Longest file name on Linux, in bytes. */
const MAX_NAME_BYTES = 255
/** PATH_MAX includes the final NUL. */
const MAX_PATH_BYTES = FILE_LIMITS.maxPathBytes - 1

type Check = readonly [FileErrorCode, (text: string) => boolean, string]

/**
 * Rules for file names on other systems also apply here if they cost nothing, so that a path means the same on
 * every system.
 */
const EVERYWHERE: readonly Check[] = [
  ['path_empty', (text) => text === '', 'is empty; the workspace itself is "."'],
  ['path_nul', (text) => text.includes('\0'), 'contains a NUL character'],
  ['denied', (text) => !text.isWellFormed(), 'is not well-formed Unicode'],
  ['path_too_long', (text) => Buffer.byteLength(text) > MAX_PATH_BYTES, 'is too long'],
  [
    'path_device',
    (text) => /^[\\/]{2}[?.](?:[\\/]|$)|^[\\/]\?\?[\\/]/.test(text),
    'names a device of the system',
  ],
  ['path_absolute', (text) => /^[\\/]/.test(text), 'is absolute; write it relative to the workspace'],
  ['path_absolute', (text) => /^[A-Za-z]:(?:[\\/]|$)/.test(text), 'names a drive'],
  ['path_device', (text) => /^[A-Za-z]:/.test(text), 'is relative to a drive'],
  [
    'path_outside',
    (text) => text.split(/[\\/]/).includes('..'),
    'contains "..", which could lead out of the workspace',
  ],
]

/** `file:stream` names an alternate data stream on file systems that have them. */
const NO_STREAM: Check = ['path_stream', (text) => text.includes(':'), 'contains ":"']

/**
 * Parses a path from a caller. Throws a FileFault for every spelling that names something other than a path
 * below the root, on Linux or any other system. A backslash inside a name is an ordinary character.
 */
export const parsePath = (text: string): WorkspacePath => parse(text, [...EVERYWHERE, NO_STREAM])

/**
 * Parses the name of an archive entry. The same rules apply, but `:` is allowed, because file names on disk
 * contain it.
 */
export const parseMemberName = (text: string): WorkspacePath => parse(text, EVERYWHERE)

function parse(text: string, checks: readonly Check[]): WorkspacePath {
  for (const [code, refuses, reason] of checks) {
    if (refuses(text)) throw new FileFault(code, `${shown(text)} ${reason}`)
  }
  const names = text.split('/').filter((name) => name !== '' && name !== '.')
  const long = names.find((name) => Buffer.byteLength(name) > MAX_NAME_BYTES)
  if (long !== undefined) throw new FileFault('path_too_long', `${shown(long)} is too long for a name`)
  return pathOf(names)
}

/** Creates a path from names that came from the file system or from a parsed path. */
export const pathOf = (names: readonly string[]): WorkspacePath => ({ names, text: names.join('/') || '.' })

export const parentOf = (path: WorkspacePath): WorkspacePath => pathOf(path.names.slice(0, -1))

export const childOf = (path: WorkspacePath, name: string): WorkspacePath => pathOf([...path.names, name])

/** Returns the last name. Throws for the root, which must not be created, replaced, moved or deleted. */
export function nameOf(path: WorkspacePath): string {
  const name = path.names.at(-1)
  if (name === undefined) throw new FileFault('denied', 'the workspace itself cannot be changed')
  return name
}

/** Quotes and truncates a path for messages. */
const shown = (text: string): string => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
