import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CONTROLLER_FILES, type LockedFile } from '../model/controller-release.ts'
import { ReleaseError, verified } from './read-release.ts'

const TIMEOUT_MS = 30_000
/** The largest file of the release has 0.4 MB. */
const MAX_BYTES = 4 * 1024 * 1024

export interface ReleaseFetch {
  /** An https address that the files are below, or a folder. */
  readonly from: string
  readonly into: string
  readonly fetch?: typeof fetch
}

/** Downloads the files of the pinned release into a folder after checking each checksum. Returns their paths. */
export async function fetchRelease({ from, into, fetch: get = fetch }: ReleaseFetch): Promise<string[]> {
  const isAddress = /^https?:/.test(from)
  if (isAddress && !from.startsWith('https:')) throw new ReleaseError(`${from} is not https`)
  const texts = await Promise.all(
    CONTROLLER_FILES.map(async (file) => {
      const at = isAddress ? `${from.replace(/\/$/, '')}/${file.path}` : join(from, file.path)
      return [file, verified(file, await (isAddress ? download(at, get) : copied(at)), at)] as const
    }),
  )
  for (const [file, text] of texts) await keep(file, text, into)
  return texts.map(([{ path }]) => path)
}

/** Whole or not at all: a run that is stopped leaves no file that is half there. */
async function keep({ path }: LockedFile, text: string, into: string): Promise<void> {
  const target = join(into, path)
  await mkdir(dirname(target), { recursive: true })
  await writeFile(`${target}.${process.pid}`, text)
  await rename(`${target}.${process.pid}`, target)
}

const OTHERWISE =
  'Take them from a mirror or a folder: npm run controller -- fetch --from <https address or folder>'

async function copied(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new ReleaseError(`${path} cannot be read (${code ?? 'unknown'}).`, { cause: error })
  }
}

async function download(url: string, get: typeof fetch): Promise<Uint8Array> {
  const answer = await get(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: 'error' }).catch(
    (error: Error) => {
      const { code } = (error.cause ?? error) as NodeJS.ErrnoException
      throw new ReleaseError(`${url} cannot be reached (${code ?? error.message}).\n${OTHERWISE}`, {
        cause: error,
      })
    },
  )
  if (!answer.ok) throw new ReleaseError(`${url} answered ${answer.status}.\n${OTHERWISE}`)
  const bytes = new Uint8Array(await answer.arrayBuffer())
  if (bytes.byteLength > MAX_BYTES) throw new ReleaseError(`${url} is larger than any file of the release`)
  return bytes
}
