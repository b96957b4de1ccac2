import { createHash } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import {
  CONTROLLER_FILES,
  CONTROLLER_SOURCE,
  type KubeManifest,
  type LockedFile,
} from '../plans/controller-release.ts'

const TIMEOUT_MS = 30_000
/** The largest file of the release has 0.4 MB. */
const MAX_BYTES = 4 * 1024 * 1024

export interface ReleaseSource {
  /** Folder with the release's files, where the machine cannot or shall not reach GitHub. */
  readonly folder?: string | undefined
  /** Where downloaded files are kept, by checksum. */
  readonly cache: string
  readonly fetch?: typeof fetch
}

/** Objects of the pinned release. A file that is not, byte for byte, the pinned one is refused wherever it comes from. */
export async function readRelease(source: ReleaseSource): Promise<KubeManifest[]> {
  const files = await Promise.all(CONTROLLER_FILES.map((file) => readLocked(file, source)))
  return files.flatMap((text) =>
    parseAllDocuments(text)
      .map((document) => document.toJS() as KubeManifest | null)
      .filter((object) => object !== null),
  )
}

async function readLocked(
  file: LockedFile,
  { folder, cache, fetch: get = fetch }: ReleaseSource,
): Promise<string> {
  if (folder !== undefined) return verified(file, await readFile(join(folder, file.path)), folder)
  const kept = join(cache, file.sha256)
  const cached = await readFile(kept).catch(ifAbsent)
  if (cached !== undefined) return verified(file, cached, cache)
  const url = `${CONTROLLER_SOURCE}/${file.path}`
  const text = verified(file, await download(url, get), url)
  await mkdir(cache, { recursive: true })
  await writeFile(`${kept}.${process.pid}`, text)
  await rename(`${kept}.${process.pid}`, kept)
  return text
}

function ifAbsent(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
}

async function download(url: string, get: typeof fetch): Promise<Uint8Array> {
  const answer = await get(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: 'error' })
  if (!answer.ok)
    throw new Error(`${url} answered ${answer.status}: give controller.folder if it cannot be reached`)
  const bytes = new Uint8Array(await answer.arrayBuffer())
  if (bytes.byteLength > MAX_BYTES) throw new Error(`${url} is larger than a file of the release`)
  return bytes
}

function verified({ path, sha256 }: LockedFile, bytes: Uint8Array, from: string): string {
  const actual = createHash('sha256').update(bytes).digest('hex')
  if (actual !== sha256)
    throw new Error(`${path} of ${from} is not the pinned file: sha256 ${actual}, not ${sha256}`)
  return new TextDecoder().decode(bytes)
}
