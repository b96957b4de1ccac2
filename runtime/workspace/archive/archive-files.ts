import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { extract, type Header } from 'tar-stream'
import { FileFault } from '../file-fault.ts'
import { isGitName } from '../git/git-names.ts'
import { parseMemberName } from '../parse-path.ts'

const ENTRIES_PER_PAUSE = 256
const KINDS: ReadonlySet<Header['type']> = new Set(['file', 'symlink', 'link'])

export type Visit = (path: string, header: Header, content: AsyncIterable<Uint8Array>) => Promise<void>

/** Visits the files and links of an archive. Folders and everything in git directories are left out. */
export async function eachFile(archive: AsyncIterable<Uint8Array>, visit: Visit): Promise<void> {
  const source = Readable.from(archive)
  const entries = extract()
  source.once('error', (error) => entries.destroy(error))
  source.pipe(entries)
  let count = 0
  try {
    for await (const entry of entries) {
      const path = filePathOf(entry.header.name)
      if (path !== undefined && KINDS.has(entry.header.type))
        await visit(path, entry.header, entry as AsyncIterable<Uint8Array>)
      for await (const _ of entry);
      if (++count % ENTRIES_PER_PAUSE === 0) await nextTurn()
    }
  } finally {
    source.destroy()
  }
}

/** Undefined for a path that no workspace has, and for the paths of git directories. */
export function filePathOf(name: string): string | undefined {
  try {
    const { names, text } = parseMemberName(name)
    return names.length === 0 || names.some(isGitName) ? undefined : text
  } catch (error) {
    if (error instanceof FileFault) return undefined
    throw error
  }
}

/** The content of some files of an archive, at most `maxBytes` together. The content of a link is its target. */
export async function contentsOf(
  archive: AsyncIterable<Uint8Array>,
  { wanted, maxBytes }: { readonly wanted: ReadonlySet<string>; readonly maxBytes: number },
): Promise<ReadonlyMap<string, Buffer>> {
  const contents = new Map<string, Buffer>()
  let bytes = 0
  await eachFile(archive, async (path, header, content) => {
    if (!wanted.has(path) || header.type === 'link') return
    bytes += header.size ?? 0
    if (bytes > maxBytes)
      throw new FileFault('too_large', `the files have more than ${maxBytes} bytes together`)
    contents.set(path, await contentOf(header, content))
  })
  return contents
}

const contentOf = async ({ type, linkname }: Header, content: AsyncIterable<Uint8Array>): Promise<Buffer> =>
  type === 'symlink' ? Buffer.from(linkname ?? '') : Buffer.concat(await Array.fromAsync(content))
