import { type BigIntStats, lstatSync, readlinkSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { FileFault, toFileFault } from '../file-fault.ts'
import { atHandle, handlePath, withHandleAsync } from '../handles.ts'
import { childOf, pathOf, type WorkspacePath } from '../parse-path.ts'
import { openForListing, type Tree } from '../tree.ts'
import { staysInside } from './link-target.ts'

/** Excludes set-user-ID, set-group-ID and sticky bits. */
const PERMISSION_BITS = 0o777n

export interface WalkOptions {
  readonly signal?: AbortSignal
  /** Names that are omitted at any depth, with everything below them. @default none */
  readonly leavesOut?: (name: string) => boolean
  /**
   * Called for entries that an archive cannot contain: sockets, FIFOs, devices, and links that lead out of the
   * workspace.
   */
  readonly onOmitted: (path: string, reason: string) => void
}

/** One entry of a workspace that an archive can contain. */
export type Member =
  | (MemberFacts & { readonly kind: 'file' })
  | (MemberFacts & { readonly kind: 'folder' })
  | (MemberFacts & { readonly kind: 'link'; readonly target: string })

type MemberFacts = { readonly path: WorkspacePath; readonly mode: number; readonly stats: BigIntStats }

/** Yields the whole workspace. Folders come before their contents and names are sorted. */
export async function* walkMembers(tree: Tree, options: WalkOptions): AsyncGenerator<Member> {
  const waiting = [pathOf([])]
  for (let folder = waiting.pop(); folder; folder = waiting.pop()) {
    options.signal?.throwIfAborted()
    const members = (await entriesOf(tree, folder)).flatMap((found) => memberOf(found, options) ?? [])
    yield* members
    waiting.push(...members.flatMap(({ kind, path }) => (kind === 'folder' ? [path] : [])).reverse())
  }
}

interface Found {
  readonly path: WorkspacePath
  readonly stats: BigIntStats
  /** The target of a symbolic link. */
  readonly target?: string
}

async function entriesOf(tree: Tree, folder: WorkspacePath): Promise<Found[]> {
  try {
    return await withHandleAsync(openForListing(tree, folder), async (fd) => {
      const names: string[] = []
      for await (const { name } of await opendir(handlePath(fd))) names.push(name)
      return names.sort().flatMap((name) => foundAt(fd, name, childOf(folder, name)) ?? [])
    })
  } catch (error) {
    throw toFileFault(error, folder.text)
  }
}

export function foundAt(directory: number, name: string, path: WorkspacePath): Found | undefined {
  const at = atHandle(directory, name)
  const stats = lstatSync(at, { bigint: true, throwIfNoEntry: false })
  if (stats) return { path, stats, ...(stats.isSymbolicLink() ? { target: readlinkSync(at) } : {}) }
  // Either the name is not valid UTF-8, so its decoded form does not exist, or the file was deleted.
  if (name.includes('\ufffd')) throw new FileFault('not_found', `${path.text}: its name is not UTF-8`)
  return undefined
}

export function memberOf(
  { path, stats, target }: Found,
  { leavesOut, onOmitted }: WalkOptions,
): Member | undefined {
  if (leavesOut?.(path.names.at(-1) ?? '')) return undefined
  const common = { path, stats, mode: Number(stats.mode & PERMISSION_BITS) }
  if (stats.isFile()) return { ...common, kind: 'file' }
  if (stats.isDirectory()) return { ...common, kind: 'folder' }
  if (target === undefined) onOmitted(path.text, 'it is neither a file, a folder nor a link')
  else if (staysInside(target, path.names.length - 1)) return { ...common, kind: 'link', target }
  else onOmitted(path.text, 'the link leads out of the workspace')
  return undefined
}
