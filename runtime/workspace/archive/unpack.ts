import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  futimesSync,
  openSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { type Extract, extract, type Header } from 'tar-stream'
import { messageOf } from '../../kit/errors.ts'
import { FileFault, faultFrom, toFileFault } from '../file-fault.ts'
import {
  atHandle,
  handlePath,
  readUpTo,
  regularFile,
  withHandle,
  withHandleAsync,
  writeFully,
} from '../handles.ts'
import { READ_FLAGS } from '../operations/read.ts'
import { nameOf, parentOf, parseMemberName, type WorkspacePath } from '../parse-path.ts'
import { inParent, makeDirectories, openDirectory, type Tree } from '../tree.ts'
import { ArchiveCounter } from './archive-counter.ts'
import type { ArchiveLimits, ArchiveSummary } from './archive-summary.ts'
import { staysInside } from './link-target.ts'
import { untilDrained } from './until-drained.ts'

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
/** Excludes set-user-ID, set-group-ID and sticky bits. */
const PERMISSION_BITS = 0o777
const PIECE_BYTES = 65_536
/** Bytes allowed per entry in addition to its content: headers, long names, padding. */
const OVERHEAD_BYTES = 8_192

export interface UnpackOptions {
  readonly limits: ArchiveLimits
  readonly signal?: AbortSignal
  /** Returns the header to unpack with, or undefined to leave an entry out. @default every entry as it is */
  readonly admit?: (path: WorkspacePath, header: Header) => Header | undefined
}

type Entry = Extract extends AsyncIterable<infer Source> ? Source : never

interface Unpacking {
  readonly tree: Tree
  readonly counter: ArchiveCounter
  readonly admit: NonNullable<UnpackOptions['admit']>
  /** Folder modes, applied after everything is unpacked. */
  readonly folderModes: Map<string, { path: WorkspacePath; mode: number }>
}

/**
 * Unpacks an archive. Every name must be new. Stops with a FileFault that names the first entry that is not a
 * file, a folder or a link inside the root, or whose name is invalid or exists. Earlier entries stay in place.
 */
export async function unpackWorkspace(
  tree: Tree,
  source: AsyncIterable<Uint8Array>,
  options: UnpackOptions,
): Promise<ArchiveSummary> {
  const { limits, admit = (_path: WorkspacePath, header: Header) => header } = options
  const unpacking = { tree, counter: new ArchiveCounter(limits), admit, folderModes: new Map() }
  const archive = extract()
  // An error in the source destroys the archive, and the loop below throws it.
  feed(archive, source, options.limits).catch((error: Error) => archive.destroy(error))
  try {
    for await (const entry of archive) {
      options.signal?.throwIfAborted()
      await unpackMember(unpacking, entry)
    }
    applyFolderModes(unpacking)
  } catch (error) {
    throw error instanceof FileFault
      ? error
      : faultFrom(error, 'io_error', `the archive: ${messageOf(error)}`)
  } finally {
    archive.destroy(null)
  }
  const { entries, bytes } = unpacking.counter
  return { entries, bytes }
}

async function feed(
  archive: Extract,
  source: AsyncIterable<Uint8Array>,
  { maxBytes, maxEntries }: ArchiveLimits,
): Promise<void> {
  let bytes = 0
  for await (const chunk of source) {
    if (archive.destroyed) return
    bytes += chunk.length
    if (bytes > maxBytes + maxEntries * OVERHEAD_BYTES) {
      throw new FileFault('too_large', 'the archive is longer than its members explain')
    }
    if (!archive.write(chunk)) await untilDrained(archive)
  }
  archive.end(null)
}

async function unpackMember(unpacking: Unpacking, entry: Entry): Promise<void> {
  const { header } = entry
  const shown = JSON.stringify(header.name)
  try {
    unpacking.counter.addEntry(shown)
    const path = parseMemberName(header.name)
    const admitted = unpacking.admit(path, header)
    if (admitted) await makeMember(unpacking, path, { header: admitted, content: entry })
    // tar-stream emits the next entry only after this one is consumed.
    for await (const _ of entry);
  } catch (error) {
    const { code, message } = toFileFault(error, shown)
    throw faultFrom(error, code, `member ${shown} of the archive: ${message}`)
  }
}

async function makeMember(
  unpacking: Unpacking,
  path: WorkspacePath,
  { header, content }: { header: Header; content: Entry },
): Promise<void> {
  switch (header.type) {
    case 'directory':
      return makeFolder(unpacking, path, header)
    case 'file':
      return makeFile(unpacking, path, { header, content })
    case 'symlink':
      return makeLink(unpacking, path, header)
    case 'link':
      return copyLinked(unpacking, path, header)
    default:
      throw new FileFault(
        'special_file',
        `a ${header.type ?? 'member of an unknown type'} cannot be unpacked`,
      )
  }
}

function makeFolder({ tree, folderModes }: Unpacking, path: WorkspacePath, header: Header): void {
  if (path.names.length === 0) return
  makeDirectories(tree, path)
  folderModes.set(path.text, { path, mode: header.mode & PERMISSION_BITS })
}

async function makeFile(
  { tree, counter }: Unpacking,
  path: WorkspacePath,
  { header, content }: { header: Pick<Header, 'size' | 'mode' | 'mtime'>; content: AsyncIterable<unknown> },
): Promise<void> {
  const name = nameOf(path)
  counter.addBytes(path.text, header.size)
  makeDirectories(tree, parentOf(path))
  await withHandleAsync(openDirectory(tree, parentOf(path)), async (directory) => {
    const target = atHandle(directory, name)
    const fd = openSync(target, NEW_FILE, 0o600)
    try {
      await fillFile(fd, content)
      fchmodSync(fd, header.mode & PERMISSION_BITS)
      futimesSync(fd, header.mtime, header.mtime)
    } catch (error) {
      unlinkSync(target)
      throw error
    } finally {
      closeSync(fd)
    }
  })
}

async function fillFile(fd: number, content: AsyncIterable<unknown>): Promise<void> {
  let position = 0
  for await (const piece of content) {
    const bytes = piece as Uint8Array
    await writeFully(fd, bytes, position)
    position += bytes.length
  }
}

function makeLink({ tree }: Unpacking, path: WorkspacePath, header: Header): void {
  const target = header.linkname ?? ''
  nameOf(path)
  if (!staysInside(target, path.names.length - 1)) {
    throw new FileFault(
      'path_outside',
      `the link to ${JSON.stringify(target)} could lead out of the workspace`,
    )
  }
  makeDirectories(tree, parentOf(path))
  inParent(tree, path, (directory, name) => symlinkSync(target, atHandle(directory, name)))
}

/** A hard link is unpacked as a copy, because a file with two names cannot be written later. */
async function copyLinked(unpacking: Unpacking, path: WorkspacePath, header: Header): Promise<void> {
  const source = parseMemberName(header.linkname ?? '')
  await withHandleAsync(unpacking.tree.engine.open(source, READ_FLAGS), async (fd) => {
    const { size, mode, mtime } = regularFile(fd, source.text)
    const content = piecesOf(fd, size)
    await makeFile(unpacking, path, { header: { size, mode, mtime }, content })
  })
}

async function* piecesOf(fd: number, size: number): AsyncGenerator<Uint8Array> {
  for (let position = 0; position < size; position += PIECE_BYTES) {
    yield await readUpTo(fd, position, Math.min(PIECE_BYTES, size - position))
  }
}

/** Modes are set last, deepest folder first, because a folder without write permission cannot be filled. */
function applyFolderModes({ tree, folderModes }: Unpacking): void {
  for (const { path, mode } of [...folderModes.values()].reverse()) {
    withHandle(openDirectory(tree, path), (fd) => chmodSync(handlePath(fd), mode))
  }
}
