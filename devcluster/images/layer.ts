import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, statSync } from 'node:fs'
import { finished, pipeline } from 'node:stream/promises'
import { type Header, type Pack, pack } from 'tar-stream'
import { deferred } from '../deferred.ts'
import type { LayerEntry } from './image-spec.ts'

export interface Blob {
  readonly digest: string
  readonly size: number
}

const EPOCH = new Date(0)

/** Writes one uncompressed layer to `target` and returns its digest. The digest depends only on the entries. */
export async function writeLayer(entries: readonly LayerEntry[], target: string): Promise<Blob> {
  const tar = pack()
  const hash = createHash('sha256')
  tar.on('data', (chunk) => hash.update(chunk as Buffer))
  const written = pipeline(tar, createWriteStream(target))
  for (const entry of [...entries].sort(byPath)) await addEntry(tar, entry)
  tar.finalize()
  await written
  return { digest: `sha256:${hash.digest('hex')}`, size: statSync(target).size }
}

function byPath(a: LayerEntry, b: LayerEntry): number {
  return a.path < b.path ? -1 : Number(a.path > b.path)
}

async function addEntry(tar: Pack, entry: LayerEntry): Promise<void> {
  const common = { name: entry.path, mtime: EPOCH, uid: 0, gid: 0, uname: '', gname: '' }
  if (entry.kind === 'folder') {
    const { mode = 0o755, owner = 0 } = entry
    return end(tar, { ...common, type: 'directory', mode, uid: owner, gid: owner })
  }
  if (entry.kind === 'link')
    return end(tar, { ...common, type: 'symlink', linkname: entry.target, mode: 0o777 })
  const usual = entry.executable ? 0o755 : 0o644
  const mode = entry.kind === 'file' ? (entry.mode ?? usual) : usual
  if (entry.kind === 'text') return end(tar, { ...common, mode, type: 'file' }, entry.text)
  const size = statSync(entry.source).size
  const sink = tar.entry({ ...common, mode, size, type: 'file' })
  createReadStream(entry.source).pipe(sink)
  await finished(sink)
}

function end(tar: Pack, header: Partial<Header> & { name: string }, text?: string): Promise<void> {
  const { promise, resolve, reject } = deferred()
  const done = (error?: Error | null) => (error ? reject(error) : resolve())
  if (text === undefined) tar.entry(header as Header, done)
  else tar.entry(header as Header, text, done)
  return promise
}
