import { createReadStream, createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'

/** Header of a git bundle. */
export interface BundleHeader {
  /** Commits that the receiving repository must have. */
  readonly prerequisites: readonly string[]
  readonly refs: ReadonlyMap<string, string>
  /** Offset of the pack. */
  readonly packAt: number
}

/** Far more than the refs of a large repository need. */
const MAX_HEADER_BYTES = 16_777_216
const OID = '[0-9a-f]{40}(?:[0-9a-f]{24})?'
const FORMAT = /^@object-format=sha(?:1|256)$/
const PREREQUISITE = new RegExp(`^-(${OID})(?: .*)?$`)
const REF = new RegExp(`^(${OID}) (\\S+)$`)

/** Reads the header of a bundle (gitformat-bundle(5)). Returns undefined for any other format. */
export async function readBundleHeader(file: string): Promise<BundleHeader | undefined> {
  await using handle = await open(file, 'r')
  const { size } = await handle.stat()
  const buffer = Buffer.alloc(Math.min(size, MAX_HEADER_BYTES))
  await handle.read(buffer, 0, buffer.length, 0)
  const end = buffer.indexOf('\n\n')
  if (end < 0) return undefined
  const [first, ...lines] = buffer.subarray(0, end).toString('latin1').split('\n')
  if (first !== '# v2 git bundle' && first !== '# v3 git bundle') return undefined
  return parseLines(lines, end + 2)
}

function parseLines(lines: readonly string[], packAt: number): BundleHeader | undefined {
  // An unknown capability may change the format of the pack.
  if (!lines.every((line) => FORMAT.test(line) || PREREQUISITE.test(line) || REF.test(line))) return undefined
  return {
    prerequisites: lines.flatMap((line) => PREREQUISITE.exec(line)?.[1] ?? []),
    refs: new Map(lines.flatMap(refOf)),
    packAt,
  }
}

function refOf(line: string): (readonly [ref: string, id: string])[] {
  const [, id, ref] = REF.exec(line) ?? []
  return id === undefined || ref === undefined ? [] : [[ref, id]]
}

/** Copies the pack of a bundle into a separate file. */
export const writePack = (bundle: string, { packAt }: BundleHeader, to: string): Promise<void> =>
  pipeline(createReadStream(bundle, { start: packAt }), createWriteStream(to, { flags: 'wx', mode: 0o600 }))
