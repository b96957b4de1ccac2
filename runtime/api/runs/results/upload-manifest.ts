import { createHash } from 'node:crypto'
import type { Header } from 'tar-stream'
import type { FileVersion } from '../../../../contracts/results.ts'
import { eachFile, filePathOf } from '../../../workspace/archive/archive-files.ts'

/** The files and links of an archive by path. Folders and everything in git directories are left out. */
export type UploadManifest = ReadonlyMap<string, FileVersion>

/** Lists the files of an archive with their digests. */
export async function manifestOf(archive: AsyncIterable<Uint8Array>): Promise<UploadManifest> {
  const files = new Map<string, FileVersion>()
  await eachFile(archive, async (path, header, content) => {
    const version = header.type === 'link' ? copiedFrom(files, header) : await versionOf(header, content)
    if (version) files.set(path, version)
  })
  return files
}

/** A hard link is unpacked as a copy. */
const copiedFrom = (files: UploadManifest, { linkname }: Header): FileVersion | undefined =>
  files.get(filePathOf(linkname ?? '') ?? '')

async function versionOf(header: Header, content: AsyncIterable<Uint8Array>): Promise<FileVersion> {
  const hash = createHash('sha256')
  if (header.type === 'symlink') {
    const target = Buffer.from(header.linkname ?? '')
    return { mode: 'link', size: target.length, sha256: hash.update(target).digest('hex') }
  }
  for await (const piece of content) hash.update(piece)
  const isExecutable = ((header.mode ?? 0) & 0o100) !== 0
  return { mode: isExecutable ? 'executable' : 'file', size: header.size ?? 0, sha256: hash.digest('hex') }
}
