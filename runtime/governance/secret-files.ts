import { matchesGlob } from '../../policies/agent/glob.ts'
import type { AgentPolicy } from '../../policies/agent/load.ts'

type SecretFiles = AgentPolicy['secretFiles']

/** Globs taken apart: nearly all are plain names, `*.ending` or `beginning*`, for which one look-up is enough. */
interface NameSet {
  readonly names: ReadonlySet<string>
  readonly globs: readonly string[]
}

/** One set per policy: every decision about a command asks about each of its words. */
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

/** Whether a path's last segment is the name of a file that holds credentials. */
export function isSecretFile(path: string, { match, except }: SecretFiles): boolean {
  const name = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1).toLowerCase()
  return name !== '' && holds(match, name) && !holds(except, name)
}

/** Whether a command's word names such a file, alone or inside `@file`, `key=file`, `host:file`. */
export const namesSecretFile = (word: string, files: SecretFiles): boolean =>
  word.length <= MAX_WORD && word.split(SEPARATORS).some((part) => isSecretFile(part, files))

const SEPARATORS = /[=@:,<>"'\s]+/

/** A longer word is a text, not a path. */
const MAX_WORD = 4096
