import { matchesGlob } from '../../policies/agent/glob.ts'
import type { AgentPolicy } from '../../policies/agent/load.ts'

type SecretFiles = AgentPolicy['secretFiles']

/** Globs split into exact names and real globs. Most entries are exact names, which need only a set lookup. */
interface NameSet {
  readonly names: ReadonlySet<string>
  readonly globs: readonly string[]
}

/** One `NameSet` per list of globs: each decision checks every word of a command. */
const sets = new WeakMap<readonly string[], NameSet>()

function nameSetOf(globs: readonly string[]): NameSet {
  const known = sets.get(globs)
  if (known) return known
  const lower = globs.map((glob) => glob.toLowerCase())
  const made = {
    names: new Set(lower.filter((glob) => !glob.includes('*'))),
    globs: lower.filter((glob) => glob.includes('*')),
  }
  sets.set(globs, made)
  return made
}

const holds = (globs: readonly string[], name: string): boolean => {
  const set = nameSetOf(globs)
  return set.names.has(name) || set.globs.some((glob) => matchesGlob(glob, name))
}

/** Returns whether the last segment of a path is the name of a file that holds credentials. */
export function isSecretFile(path: string, { match, except }: SecretFiles): boolean {
  const name = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1).toLowerCase()
  return name !== '' && holds(match, name) && !holds(except, name)
}

/** Returns whether a word of a command names such a file, alone or inside `@file`, `key=file` or `host:file`. */
export const namesSecretFile = (word: string, files: SecretFiles): boolean =>
  word.length <= MAX_WORD && word.split(SEPARATORS).some((part) => isSecretFile(part, files))

const SEPARATORS = /[=@:,<>"'\s]+/

/** A longer word is text, not a path. */
const MAX_WORD = 4096
