import { fstatSync, lstatSync, readlinkSync, type Stats } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { type Header, type Pack, pack } from 'tar-stream'
import { FileFault, faultFrom, toFileFault } from '../file-fault.ts'
import { atHandle, handlePath, readUpTo, regularFile, withHandleAsync } from '../handles.ts'
import { READ_FLAGS } from '../operations/read.ts'
import { childOf, pathOf, type WorkspacePath } from '../parse-path.ts'
import { openForListing, type Tree } from '../tree.ts'
import { ArchiveCounter } from './archive-counter.ts'
import type { ArchiveLimits, ArchiveSummary } from './archive-summary.ts'
import { coalesce } from './coalesce.ts'
import { staysInside } from './link-target.ts'
import { untilDrained } from './until-drained.ts'

const PIECE_BYTES = 65_536
const PERMISSION_BITS = 0o777

export interface PackOptions {
  readonly limits: ArchiveLimits
  readonly signal?: AbortSignal
  /** Names that are omitted at any depth, with everything below them. @default none */
  readonly leavesOut?: (name: string) => boolean
  /**
   * Called for entries that an archive cannot contain: sockets, FIFOs, devices, and links that lead out of the
   * workspace.
   */
  readonly onOmitted: (path: string, reason: string) => void
}

/**
 * Packs the whole workspace. `summary` is updated while the stream is read. If an entry cannot be read, the
 * stream fails with its name.
 */
export function packWorkspace(
  tree: Tree,
  options: PackOptions,
): { chunks: AsyncIterable<Uint8Array>; summary: ArchiveSummary } {
  const counter = new ArchiveCounter(options.limits)
  return { summary: counter, chunks: coalesce(stream(tree, options, counter), PIECE_BYTES) }
}

async function* stream(
  tree: Tree,
  options: PackOptions,
  counter: ArchiveCounter,
): AsyncGenerator<Uint8Array> {
  const archive = pack()
  const packing = { tree, options, counter, archive }
  const filled = fill(packing).then(
    () => archive.finalize(),
    (error: unknown) => archive.destroy(error instanceof Error ? error : new Error(String(error))),
  )
  try {
    for await (const chunk of archive) yield chunk as Uint8Array
  } finally {
    archive.destroy(null)
    await filled
  }
}

interface Packing {
  readonly tree: Tree
  readonly options: PackOptions
  readonly counter: ArchiveCounter
  readonly archive: Pack
}

/** Folders come before their contents and names are sorted, so the same tree gives the same archive. */
async function fill(packing: Packing): Promise<void> {
  const waiting = [pathOf([])]
  for (let folder = waiting.pop(); folder; folder = waiting.pop()) {
    const folders: WorkspacePath[] = []
    for (const member of await membersOf(packing.tree, folder)) {
      packing.options.signal?.throwIfAborted()
      if (packing.options.leavesOut?.(member.path.names.at(-1) ?? '')) continue
      await packMember(packing, member)
      if (member.stats.isDirectory()) folders.push(member.path)
    }
    waiting.push(...folders.reverse())
  }
}

interface Member {
  readonly path: WorkspacePath
  readonly stats: Stats
  /** The target of a symbolic link. */
  readonly target?: string
}

async function membersOf(tree: Tree, folder: WorkspacePath): Promise<Member[]> {
  try {
    return await withHandleAsync(openForListing(tree, folder), async (fd) => {
      const names: string[] = []
      for await (const { name } of await opendir(handlePath(fd))) names.push(name)
      return names.sort().flatMap((name) => memberAt(fd, name, childOf(folder, name)) ?? [])
    })
  } catch (error) {
    throw toFileFault(error, folder.text)
  }
}

function memberAt(directory: number, name: string, path: WorkspacePath): Member | undefined {
  const at = atHandle(directory, name)
  const stats = lstatSync(at, { throwIfNoEntry: false })
  if (stats) return { path, stats, ...(stats.isSymbolicLink() ? { target: readlinkSync(at) } : {}) }
  // Either the name is not valid UTF-8, so its decoded form does not exist, or the file was deleted.
  if (name.includes('\ufffd')) throw new FileFault('not_found', `${path.text}: its name is not UTF-8`)
  return undefined
}

async function packMember(packing: Packing, { path, stats, target }: Member): Promise<void> {
  const { options, counter, archive } = packing
  const mtime = new Date(Math.max(0, stats.mtimeMs))
  const common = { mtime, mode: stats.mode & PERMISSION_BITS }
  if (stats.isFile()) return packFile(packing, path, common)
  if (target !== undefined && !staysInside(target, path.names.length - 1)) {
    return options.onOmitted(path.text, 'the link leads out of the workspace')
  }
  if (target === undefined && !stats.isDirectory()) {
    return options.onOmitted(path.text, 'it is neither a file, a folder nor a link')
  }
  counter.addEntry(path.text)
  await addEntry(
    archive,
    target === undefined
      ? { ...common, name: `${path.text}/`, type: 'directory' }
      : { ...common, name: path.text, type: 'symlink', linkname: target },
  )
}

async function packFile(packing: Packing, path: WorkspacePath, common: Pick<Header, 'mtime' | 'mode'>) {
  const { tree, counter, archive } = packing
  try {
    await withHandleAsync(tree.engine.open(path, READ_FLAGS), async (fd) => {
      const { size } = regularFile(fd, path.text)
      counter.addEntry(path.text)
      counter.addBytes(path.text, size)
      await addEntry(archive, { ...common, name: path.text, type: 'file', size }, contentOf(fd, path, size))
    })
  } catch (error) {
    throw toFileFault(error, path.text)
  }
}

/** Yields exactly `size` bytes. A file that grew is truncated; a file that shrank is an error. */
async function* contentOf(fd: number, path: WorkspacePath, size: number): AsyncGenerator<Uint8Array> {
  for (let position = 0; position < size; ) {
    const piece = await readUpTo(fd, position, Math.min(PIECE_BYTES, size - position))
    if (piece.length === 0) {
      throw new FileFault(
        'io_error',
        `${path.text} shrank to ${fstatSync(fd).size} bytes while it was packed`,
      )
    }
    yield piece
    position += piece.length
  }
}

async function addEntry(
  archive: Pack,
  headers: Partial<Header> & Pick<Header, 'name'>,
  content?: AsyncIterable<Uint8Array>,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const entry = archive.entry(headers, (error) =>
    error ? reject(faultFrom(error, 'io_error', `${headers.name}: ${error.message}`)) : resolve(),
  )
  // The callback above receives the same error.
  entry.on('error', () => undefined)
  promise.catch(() => undefined)
  if (content) {
    for await (const piece of content) {
      if (!entry.write(piece)) await untilDrained(entry)
      if (archive.destroyed) throw new FileFault('io_error', 'the archive was closed')
    }
  }
  if (content) entry.end(null)
  await promise
}
