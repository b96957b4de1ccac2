import { matchesGlob } from '../../policies/agent/glob.ts'
import type { AgentPolicy } from '../../policies/agent/load.ts'

type SecretFiles = AgentPolicy['secretFiles']

/** Whether a path's last segment is the name of a file that holds credentials. */
export function isSecretFile(path: string, { match, except }: SecretFiles): boolean {
  const name = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1).toLowerCase()
  const named = (globs: readonly string[]) => globs.some((glob) => matchesGlob(glob.toLowerCase(), name))
  return name !== '' && named(match) && !named(except)
}

/** Whether a command's word names such a file, alone or inside `@file`, `key=file`, `host:file`. */
export const namesSecretFile = (word: string, files: SecretFiles): boolean =>
  word.length <= MAX_WORD && word.split(/[=@:,<>"'\s]+/).some((part) => isSecretFile(part, files))

/** A longer word is a text, not a path. */
const MAX_WORD = 4096
