import type { FileErrorCode } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { FileFault } from './file-fault.ts'

/** A path that passed every check by spelling: names below the root, none of them `.`, `..` or empty. */
export interface WorkspacePath {
  readonly names: readonly string[]
  /** The names joined with `/`; `.` for the root itself. */
  readonly text: string
}

/** Longest single name that Linux file systems take, in bytes. */
const MAX_NAME_BYTES = 255
/** The kernel's PATH_MAX counts the closing NUL. */
const MAX_PATH_BYTES = FILE_LIMITS.maxPathBytes - 1

type Check = readonly [FileErrorCode, (text: string) => boolean, string]

/** Where a rule for names of other systems costs nothing here, it holds: a path means the same everywhere. */
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

/** `file:stream` opens another file than `file` where alternate data streams exist. */
const NO_STREAM: Check = ['path_stream', (text) => text.includes(':'), 'contains ":"']

/**
 * Parses a path as a caller spells it. Throws a FileFault for every form that is, or on some system could be,
 * something else than a name below the root. A backslash inside a name is an ordinary character.
 */
export const parsePath = (text: string): WorkspacePath => parse(text, [...EVERYWHERE, NO_STREAM])

/** The name of an archive's member: the same rules, but `:` is permitted, which names on disk do contain. */
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

/** A path of names that came from the file system or from a parsed path. */
export const pathOf = (names: readonly string[]): WorkspacePath => ({ names, text: names.join('/') || '.' })

export const parentOf = (path: WorkspacePath): WorkspacePath => pathOf(path.names.slice(0, -1))

export const childOf = (path: WorkspacePath, name: string): WorkspacePath => pathOf([...path.names, name])

/** The last name; refuses the root, which nothing may create, replace, move or delete. */
export function nameOf(path: WorkspacePath): string {
  const name = path.names.at(-1)
  if (name === undefined) throw new FileFault('denied', 'the workspace itself cannot be changed')
  return name
}

/** A path as it may stand in a message: quoted, without control characters, cut. */
const shown = (text: string): string => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
