import { posix } from 'node:path'
import { LineReader } from './line-reader.ts'
import { BEGIN, parseBeginPatch } from './parse-begin-patch.ts'
import { parseUnifiedDiff } from './parse-unified-diff.ts'
import { type FileChange, type PatchResult, PatchSyntaxError } from './patch-model.ts'

/** Parses a patch in either form into one model. Pure; a patch that is not wholly understood is refused. */
export function parsePatch(patch: string): PatchResult {
  try {
    const reader = new LineReader(patch)
    reader.skipBlank()
    const isBeginForm = reader.next?.trimEnd() === BEGIN
    const changes = isBeginForm ? parseBeginPatch(reader) : parseUnifiedDiff(reader)
    if (changes.length === 0) return { ok: false, message: 'the patch changes nothing' }
    const twice = firstRepeated(changes.flatMap(pathsOf).map((path) => posix.normalize(path)))
    if (twice !== undefined)
      return { ok: false, message: `${twice} is changed twice: give its hunks together` }
    return { ok: true, changes }
  } catch (error) {
    if (error instanceof PatchSyntaxError) return { ok: false, message: error.message }
    throw error
  }
}

type PathsResult =
  | { readonly ok: true; readonly paths: readonly string[] }
  | { readonly ok: false; readonly message: string }

/** Every path that a patch reads, writes, removes or names as a target. */
export function patchPaths(patch: string): PathsResult {
  const parsed = parsePatch(patch)
  return parsed.ok ? { ok: true, paths: parsed.changes.flatMap(pathsOf) } : parsed
}

const pathsOf = (change: FileChange): string[] =>
  change.kind === 'update' && change.movedTo !== undefined ? [change.path, change.movedTo] : [change.path]

const firstRepeated = (paths: readonly string[]) => paths.find((path, index) => paths.indexOf(path) !== index)
