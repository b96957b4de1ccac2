import type { FileEntry } from '../../contracts/files.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { parsePath } from '../../runtime/workspace/parse-path.ts'
import type { Skipped } from './copied.ts'
import { requireFits } from './limits.ts'

/** The plan of a copy, made before the first file is copied, so that a copy that cannot succeed changes nothing. */
export interface Plan<E> {
  readonly files: { readonly entry: E; readonly at: string }[]
  /** Folders of the target, each behind its parent. */
  readonly folders: string[]
  readonly skipped: Skipped[]
}

export interface Walk<E> {
  readonly top: E
  /** Path of the top at the target. */
  readonly at: string
  childrenOf(entry: E): AsyncIterable<E>
  /** Why an entry is not copied to this path. */
  reasonToSkip(entry: E, at: string): string | undefined
}

export async function planCopy<E extends FileEntry>(walk: Walk<E>): Promise<Plan<E>> {
  const plan: Plan<E> = { files: [], folders: [], skipped: [] }
  const found = { entries: 0, bytes: 0, depth: 0 }
  const visit = async (entry: E, at: string, depth: number): Promise<void> => {
    countEntry(found, entry, depth)
    const reason = reasonOfKind(entry) ?? walk.reasonToSkip(entry, at) ?? reasonOfPath(at)
    if (reason !== undefined) return void plan.skipped.push({ path: entry.path, reason })
    if (entry.type === 'file') return void plan.files.push({ entry, at })
    if (at !== '.') plan.folders.push(at)
    for await (const child of walk.childrenOf(entry)) await visit(child, joined(at, nameOf(child)), depth + 1)
  }
  await visit(walk.top, walk.at, 0)
  return plan
}

function countEntry(
  found: { entries: number; bytes: number; depth: number },
  { type, size }: FileEntry,
  depth: number,
): void {
  found.entries++
  found.bytes += type === 'file' ? size : 0
  found.depth = Math.max(found.depth, depth)
  requireFits(found)
}

export const joined = (folder: string, name: string) => (folder === '.' ? name : `${folder}/${name}`)
export const nameOf = ({ path }: Pick<FileEntry, 'path'>): string => path.split('/').at(-1) ?? ''

function reasonOfKind({ type }: FileEntry): string | undefined {
  if (type === 'symlink') return 'it is a symbolic link'
  return type === 'other' ? 'it is neither a file nor a folder' : undefined
}

function reasonOfPath(path: string): string | undefined {
  try {
    parsePath(path)
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

const OWNER_MAY_EXECUTE = 0o100
export const isExecutable = ({ mode }: Pick<FileEntry, 'mode'>) => (mode & OWNER_MAY_EXECUTE) !== 0
