import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import * as z from 'zod'
import { FILE_LIMITS } from '../../../../contracts/limits.ts'
import { MANIFEST_LIMITS, type ManifestEntry, Sha256 } from '../../../../contracts/workspace-manifest.ts'
import { judgeManifest } from '../../../workspace/snapshot/judge-manifest.ts'
import { type HandledManifest, SMALL_MANIFEST_BYTES } from './manifest-room.ts'

export const TREE_LIMITS = {
  maxEntries: FILE_LIMITS.maxArchiveEntries,
  maxBytes: FILE_LIMITS.maxArchiveBytes,
} as const

/** Where the content of a file is: at an offset in a content of the store, which may be a pack of several files. */
export type Location = { readonly content: string; readonly offset: number; readonly size: number }

/** Where each content of the workspace is, by the digest of the file. Empty files have none. */
export type Locations = ReadonlyMap<string, Location>

const [Offset, Size] = [z.int().nonnegative(), z.int().positive()]
const Head = z.strictObject({
  version: z.literal(1),
  contents: z.array(z.strictObject({ sha256: Sha256, files: z.array(z.tuple([Sha256, Offset, Size])) })),
})

const MAX_HEAD_BYTES = FILE_LIMITS.maxArchiveEntries * 100
const [zip, unzip] = [promisify(gzip), promisify(gunzip)]

/** A manifest as a checkpoint stores it: a line with the locations, then the manifest as the sandbox sent it. */
export async function encodeManifest(text: string, locations: Locations): Promise<Uint8Array> {
  const files = new Map<string, [string, number, number][]>()
  for (const [file, { content, offset, size }] of locations) {
    const packed = files.get(content)
    if (packed) packed.push([file, offset, size])
    else files.set(content, [[file, offset, size]])
  }
  const contents = [...files].map(([sha256, packed]) => ({ sha256, files: packed }))
  return zip(`${JSON.stringify({ version: 1, contents })}\n${text}`, { level: 1 })
}

export async function decodeManifest(
  bytes: Uint8Array,
  handled: Pick<HandledManifest, 'need'>,
): Promise<{ readonly locations: Locations; readonly entries: () => Iterable<ManifestEntry> }> {
  const stored = (await unpack(bytes, handled)).toString()
  const end = stored.indexOf('\n')
  const { contents } = Head.parse(JSON.parse(stored.slice(0, end)))
  const locations = contents.flatMap(({ sha256, files }) =>
    files.map(([file, offset, size]) => [file, { content: sha256, offset, size }] as const),
  )
  return {
    locations: new Map(locations),
    entries: () => judgeManifest(stored.slice(end + 1), TREE_LIMITS),
  }
}

/** The size is known only afterwards, so a manifest is unpacked as a small one first. */
async function unpack(bytes: Uint8Array, handled: Pick<HandledManifest, 'need'>): Promise<Buffer> {
  const small = await unzip(bytes, { maxOutputLength: SMALL_MANIFEST_BYTES }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined
    throw error
  })
  if (small) return small
  const maxOutputLength = MANIFEST_LIMITS.maxBytes + MAX_HEAD_BYTES
  await handled.need(maxOutputLength)
  return unzip(bytes, { maxOutputLength })
}
