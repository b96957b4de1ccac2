import type { Header, Pack } from 'tar-stream'
import { contentOf } from '../content.ts'
import { toFileFault } from '../file-fault.ts'
import { regularFile, withHandleAsync } from '../handles.ts'
import { READ_FLAGS } from '../operations/read.ts'
import type { WorkspacePath } from '../parse-path.ts'
import type { Tree } from '../tree.ts'
import { addEntry, filledArchive } from './add-entry.ts'
import { ArchiveCounter } from './archive-counter.ts'
import type { ArchiveLimits, ArchiveSummary } from './archive-summary.ts'
import { coalesce } from './coalesce.ts'
import { type Member, type WalkOptions, walkMembers } from './walk-members.ts'

const PIECE_BYTES = 65_536

export interface PackOptions extends WalkOptions {
  readonly limits: ArchiveLimits
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
  yield* filledArchive((archive) => fill({ tree, options, counter, archive }))
}

interface Packing {
  readonly tree: Tree
  readonly options: PackOptions
  readonly counter: ArchiveCounter
  readonly archive: Pack
}

/** The members come in a fixed order, so the same tree gives the same archive. */
async function fill(packing: Packing): Promise<void> {
  for await (const member of walkMembers(packing.tree, packing.options)) {
    packing.options.signal?.throwIfAborted()
    await packMember(packing, member)
  }
}

export async function packMember(packing: Packing, member: Member): Promise<void> {
  const { counter, archive } = packing
  const { path, mode, stats } = member
  const common = { mtime: new Date(Math.max(0, Number(stats.mtimeMs))), mode }
  if (member.kind === 'file') return packFile(packing, path, common)
  counter.addEntry(path.text)
  await addEntry(
    archive,
    member.kind === 'folder'
      ? { ...common, name: `${path.text}/`, type: 'directory' }
      : { ...common, name: path.text, type: 'symlink', linkname: member.target },
  )
}

async function packFile(packing: Packing, path: WorkspacePath, common: Pick<Header, 'mtime' | 'mode'>) {
  const { tree, counter, archive } = packing
  try {
    await withHandleAsync(tree.engine.open(path, READ_FLAGS), async (fd) => {
      const { size } = regularFile(fd, path.text)
      counter.addEntry(path.text)
      counter.addBytes(path.text, size)
      await addEntry(
        archive,
        { ...common, name: path.text, type: 'file', size },
        contentOf(fd, path, { size }),
      )
    })
  } catch (error) {
    throw toFileFault(error, path.text)
  }
}
