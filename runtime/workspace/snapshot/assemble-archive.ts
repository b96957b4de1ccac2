import { createHash } from 'node:crypto'
import type { Pack } from 'tar-stream'
import type { ManifestEntry } from '../../../contracts/workspace-manifest.ts'
import { addEntry, filledArchive } from '../archive/add-entry.ts'
import { coalesce } from '../archive/coalesce.ts'
import { FileFault } from '../file-fault.ts'

const PIECE_BYTES = 65_536
const FOLDER_DATE = new Date(0)

type FileEntry = Extract<ManifestEntry, { kind: 'file' }>

/**
 * A workspace as a tar archive, from its manifest and the contents of its files. Stops with a FileFault if a content does
 * not have the size and the digest in the manifest, so the archive is never complete with a wrong file.
 */
export function assembleArchive(
  entries: Iterable<ManifestEntry>,
  open: (file: FileEntry) => AsyncIterable<Uint8Array>,
): AsyncIterable<Uint8Array> {
  const fill = async (archive: Pack) => {
    for (const entry of entries) await add(archive, entry, open)
  }
  return coalesce(filledArchive(fill), PIECE_BYTES)
}

function add(
  archive: Pack,
  entry: ManifestEntry,
  open: (file: FileEntry) => AsyncIterable<Uint8Array>,
): Promise<void> {
  switch (entry.kind) {
    case 'folder':
      return addEntry(archive, {
        name: `${entry.path}/`,
        type: 'directory',
        mode: entry.mode,
        mtime: FOLDER_DATE,
      })
    case 'link':
      return addEntry(archive, {
        name: entry.path,
        type: 'symlink',
        linkname: entry.target,
        mtime: FOLDER_DATE,
      })
    case 'file': {
      const { path: name, mode, size, mtime } = entry
      const header = { name, type: 'file', mode, size, mtime: new Date(mtime * 1000) } as const
      return addEntry(archive, header, verified(entry, open(entry)))
    }
  }
}

/** A piece is passed on only while the content is not too long, and the last one only if the digest is right. */
async function* verified(
  { path, size, sha256 }: FileEntry,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const piece of source) {
    bytes += piece.length
    hash.update(piece)
    const isEnd = bytes >= size
    if (isEnd && (bytes > size || hash.copy().digest('hex') !== sha256)) throw wrong(path)
    yield piece
  }
  if (bytes < size) throw wrong(path)
  if (size === 0 && hash.digest('hex') !== sha256) throw wrong(path)
}

const wrong = (path: string) =>
  new FileFault('io_error', `${path}: its stored content does not have the digest in the manifest`)
