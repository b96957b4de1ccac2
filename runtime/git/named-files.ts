import { lstat, realpath } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { kindOfGitKey } from '../../policies/agent/git-keys.ts'
import { isWithin } from '../executors/rootfs/mounts.ts'
import { isGitName } from '../workspace/git/git-names.ts'
import type { ConfigEntry } from './configuration.ts'
import { absent } from './read-data.ts'

/** A path in the workspace that git's configuration names. */
export interface NamedPath {
  readonly path: string
  readonly key: string
  /** Whether the path exists. A missing one needs a placeholder, so that the run cannot create it. */
  readonly state: 'there' | 'missing file' | 'missing folder'
}

export type NamedFiles =
  | { readonly ok: true; readonly paths: readonly NamedPath[] }
  | { readonly ok: false; readonly reason: string }

/**
 * A path taken from a configuration value. With `missing` it is protected in any case; otherwise only if a file
 * exists there.
 */
type Candidate = { readonly path: string; readonly missing?: 'missing file' | 'missing folder' | undefined }

export interface NamedPlace {
  /** The folder in which git reads the configuration. */
  readonly folder: string
  /** The workspace: that folder or one above it. Results are relative to it. */
  readonly root: string
  readonly home: string
}

const MAX_PATHS = 256
const SHELLS = /^(?:(?:\/usr)?\/bin\/)?(?:env|sh|bash|dash|zsh|node|python3?|perl|ruby|exec)$/
const BOOLEAN = /^(?:true|false|yes|no|on|off|\d+)$/i

/**
 * Finds the paths in a folder that the user's git reads or executes because its configuration names them. An
 * agent that can write such a file gets code executed by the user's next git command.
 */
export async function findNamedFiles(
  entries: readonly ConfigEntry[],
  place: NamedPlace,
): Promise<NamedFiles> {
  const found = new Map<string, NamedPath>()
  const candidates = entries.flatMap((entry) =>
    candidatesOf(entry, place).map((candidate) => ({ key: entry.key, ...candidate })),
  )
  for (const { key, ...candidate } of candidates) {
    const named = await locate(candidate, place.root)
    if (named === 'elsewhere') continue
    if ('reason' in named) return { ok: false, reason: `${key} names ${candidate.path}, ${named.reason}` }
    if (!found.has(named.path)) found.set(named.path, { ...named, key })
  }
  if (found.size > MAX_PATHS)
    return { ok: false, reason: `git's configuration names more than ${MAX_PATHS} files of the folder` }
  return { ok: true, paths: [...found.values()] }
}

function candidatesOf({ key, value, file }: ConfigEntry, { folder, home }: NamedPlace): Candidate[] {
  const from = (base: string, path: string) => resolve(base, withHome(path, home))
  // Git also reads the file that sets the value.
  const source: Candidate[] = file === undefined ? [] : [{ path: resolve(folder, file) }]
  const kind = kindOfGitKey(key)
  const isInclude = key.startsWith('include')
  switch (kind) {
    case 'texts':
      return source
    case 'files':
      return [
        ...source,
        {
          path: from(isInclude && source[0] ? dirname(source[0].path) : folder, value),
          missing: 'missing file',
        },
      ]
    case 'folders':
      return [...source, { path: from(folder, value), missing: 'missing folder' }]
    default:
      return [...source, ...wordsOf(key, value).map((word) => ({ ...word, path: from(folder, word.path) }))]
  }
}

const withHome = (path: string, home: string) =>
  path.replace(/^~(?=\/|$)/, home).replace(/^\$(?:HOME|\{HOME\})(?=\/|$)/, home)

/** Shell expressions for the working tree, in which git starts commands. */
const HERE =
  /"?(?:\$\(\s*(?:git\s+rev-parse\s+--show-toplevel|pwd)\s*\)|`\s*(?:git\s+rev-parse\s+--show-toplevel|pwd)\s*`|\$PWD|\$\{PWD\})"?/g
/** A quoted string, or a run of characters without blanks and shell metacharacters. */
const TOKEN = /"((?:\\.|[^"\\])*)"|'([^']*)'|((?:\\.|[^\s"'`$();|&<>=\\])+)/g
/** A quoted string with these characters may itself be a command line. */
const MEANS_MORE = /[\s"'`$();|&<>=]/
/** Longer command lines are not checked for pairs of a folder and a program in it. */
const MAX_PAIRED = 48

/**
 * The words of a command line that may be paths. If the program itself is missing, a placeholder keeps the run
 * from creating it.
 */
function wordsOf(key: string, value: string): Candidate[] {
  const isCommand = kindOfGitKey(key) === 'commands' && (!key.startsWith('alias.') || value.startsWith('!'))
  if (BOOLEAN.test(value)) return []
  const command = value.replace(/^!/, '')
  const words = tokensOf(command.replaceAll(HERE, './')).filter((word) => !word.startsWith('-'))
  const program = words.findIndex((word) => !SHELLS.test(word) && !MEANS_MORE.test(word))
  const single = words.map((path, index) =>
    isCommand && index === program && path.includes('/')
      ? { path, missing: 'missing file' as const }
      : { path },
  )
  // Some keys take the whole value as a file name, blanks included.
  return [...single, { path: command }, ...pairsOf(words)]
}

/** A quoted string counts as a whole, and so does each word in it. */
function tokensOf(text: string): string[] {
  return [...text.matchAll(TOKEN)]
    .flatMap(([, double, single, bare]) => {
      if (bare !== undefined) return [bare.replaceAll(/\\(.)/g, '$1')]
      const quoted = double?.replaceAll(/\\(["\\$`])/g, '$1') ?? single ?? ''
      return MEANS_MORE.test(quoted) ? [quoted, ...tokensOf(quoted.replaceAll(/["']/g, ' '))] : [quoted]
    })
    .filter((word) => word !== '')
}

/**
 * `cd tools && ./go.sh` and `"$ROOT"/tools/go.sh`: a word may be relative to a folder named by another word, or
 * to the working tree.
 */
function pairsOf(words: readonly string[]): Candidate[] {
  if (words.length > MAX_PAIRED) return []
  const relative = words.map((word) => `./${word}`)
  return [...relative, ...words.flatMap((folder) => relative.map((word) => `${folder}/${word}`))].map(
    (path) => ({ path }),
  )
}

type Located = Pick<NamedPath, 'path' | 'state'> | { readonly reason: string } | 'elsewhere'

async function locate(candidate: Candidate, folder: string): Promise<Located> {
  const real = await realpath(candidate.path).catch(nowhere)
  const inside = isWithin(candidate.path, folder) ? candidate.path : real
  if (inside === undefined || !isWithin(inside, folder)) return 'elsewhere'
  const named = relative(folder, inside)
  if (named === '') return candidate.missing ? { reason: 'which is the whole folder' } : 'elsewhere'
  // In a run, other files are mounted over git's own files.
  if (named.split('/').some(isGitName)) return 'elsewhere'
  return locateInside(folder, named, { isThere: real !== undefined, missing: candidate.missing })
}

async function locateInside(
  folder: string,
  path: string,
  { isThere, missing }: { isThere: boolean; missing: Candidate['missing'] },
): Promise<Located> {
  if (!isThere && !missing) return 'elsewhere'
  // The run could replace the link itself, regardless of its target.
  if (await hasLink(folder, path)) return { reason: 'which is reached through a symbolic link' }
  if (!isThere) return missing ? { path, state: missing } : 'elsewhere'
  // A word of a command that is the name of a folder is not a program.
  const isFolder = (await lstat(join(folder, path))).isDirectory()
  return isFolder && !missing ? 'elsewhere' : { path: widened(path), state: 'there' }
}

/** The programs in `.husky/_` run those in `.husky`. */
const widened = (path: string) => (path.startsWith('.husky/') ? '.husky' : path)

function nowhere(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code === 'ENAMETOOLONG') return undefined
  if ((error as NodeJS.ErrnoException).code === 'EACCES') return undefined
  return absent(error)
}

async function hasLink(folder: string, path: string): Promise<boolean> {
  let at = folder
  for (const name of path.split('/')) {
    at = join(at, name)
    const stats = await lstat(at).catch(absent)
    if (stats === undefined || stats.isSymbolicLink()) return stats !== undefined
  }
  return false
}
