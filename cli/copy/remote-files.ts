import type { FileEntry } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import type { Client } from '../../runtime/client/client.ts'
import { ProblemError } from '../../runtime/client/problem-error.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { visible } from '../terminal/visible.ts'

/** Parts of a large file. Each is one request. */
const PART_BYTES = FILE_LIMITS.maxReadBytes / 2
/** The window of the service's rate limit is a minute. */
const LONGEST_PAUSE_MS = 65_000
const MAX_PAUSES = 30

/** A name in a folder of a sandbox. `name` was checked: it is one name, and not `.` or `..`. */
export type RemoteEntry = Omit<FileEntry, 'path'> & { readonly path: string; readonly name: string }
export type RemoteFile = Pick<RemoteEntry, 'path' | 'size' | 'mtimeMs' | 'mode'>

type FileCalls = Pick<Client, 'listFiles' | 'readFile' | 'writeFile'>

/** The files of one run, read as data that its agent may have made up. */
export type RemoteFiles = ReturnType<typeof createRemoteFiles>

export function createRemoteFiles(client: FileCalls, id: string, signal: AbortSignal) {
  const call = <T>(work: () => Promise<T>) => patiently(work, signal)
  const options = { signal }

  async function* list(dir: string, from = ''): AsyncGenerator<RemoteEntry> {
    let after = from === '' ? undefined : from
    do {
      const page = await call(() =>
        client.listFiles(id, { dir, ...(after !== undefined && { after }) }, options),
      )
      for (const entry of page.entries) yield checked(dir, entry)
      requireProgress(page, after)
      after = page.next
    } while (after !== undefined)
  }

  /** The entry at a path, without following a link. Undefined if it does not exist. */
  async function find(path: string): Promise<RemoteEntry | undefined> {
    try {
      return await findIn(splitPath(path))
    } catch (error) {
      if (error instanceof ProblemError && error.code === 'not_found') return undefined
      throw error
    }
  }

  /** Entries are sorted by name, and every name sorts behind its own beginning. */
  async function findIn({ dir, name }: ReturnType<typeof splitPath>): Promise<RemoteEntry | undefined> {
    for await (const entry of list(dir, name.slice(0, -1))) {
      if (entry.name >= name) return entry.name === name ? entry : undefined
    }
    return undefined
  }

  async function readPart(part: { path: string; offset: number; length: number }): Promise<Uint8Array> {
    const bytes = await call(() => client.readFile(id, part, options))
    if (bytes.byteLength !== part.length) throw changed(part.path)
    return bytes
  }

  /** The content in parts. Fails if the file changes between two parts, because the parts would not belong together. */
  async function* readLarge({ path, size, mtimeMs }: RemoteFile): AsyncGenerator<Uint8Array> {
    for (let offset = 0; offset < size; offset += PART_BYTES)
      yield await readPart({ path, offset, length: Math.min(PART_BYTES, size - offset) })
    const now = await find(path)
    if (now?.size !== size || now.mtimeMs !== mtimeMs) throw changed(path)
  }

  async function* readSmall({ path }: RemoteFile): AsyncGenerator<Uint8Array> {
    const length = FILE_LIMITS.maxReadBytes
    const bytes = await call(() => client.readFile(id, { path, length }, options))
    // The file has grown since it was listed, and there may be more of it.
    if (bytes.byteLength >= length) throw changed(path)
    yield bytes
  }

  const read = (file: RemoteFile) => (file.size <= PART_BYTES ? readSmall(file) : readLarge(file))

  const write = (path: string, content: Uint8Array, mode: string | undefined) =>
    call(() => client.writeFile(id, { path, content, ...(mode !== undefined && { mode }) }, options))

  return { list, find, read, write }
}

const changed = (path: string) =>
  new CliError(`${visible(path)} changed while it was copied. Copy it again when nothing writes it.`, {
    status: EXIT.refused,
  })

/** A sandbox can answer anything: a name must be one name of the folder that was listed. */
function checked(dir: string, entry: FileEntry): RemoteEntry {
  const prefix = dir === '.' ? '' : `${dir}/`
  const name = entry.path.startsWith(prefix) ? entry.path.slice(prefix.length) : ''
  if (name === '' || name === '.' || name === '..' || /[/\0]/.test(name))
    throw untrue(`a name outside the folder ${visible(dir)}: ${visible(JSON.stringify(entry.path))}`)
  return { ...entry, name }
}

/** Pages are sorted, so a list that does not advance would never end. */
function requireProgress(
  { entries, next }: { readonly entries: readonly FileEntry[]; readonly next?: string | undefined },
  after: string | undefined,
): void {
  if (next === undefined) return
  if (entries.length === 0 || (after !== undefined && next <= after)) throw untrue('a list without an end')
}

const untrue = (what: string) =>
  new CliError(`The sandbox returned ${what}. Nothing more is copied.`, { status: EXIT.refused })

function splitPath(path: string): { dir: string; name: string } {
  const at = path.lastIndexOf('/')
  return at < 0 ? { dir: '.', name: path } : { dir: path.slice(0, at), name: path.slice(at + 1) }
}

/** Waits and repeats while the service limits the rate of requests. */
async function patiently<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let pauses = 0; pauses < MAX_PAUSES; pauses++) {
    try {
      return await work()
    } catch (error) {
      await delay(pauseAfter(error), signal)
    }
  }
  return work()
}

/** Rethrows every error after which a pause does not help. */
function pauseAfter(error: unknown): number {
  if (!(error instanceof ProblemError) || error.code !== 'rate_limited') throw error
  const asked = 'retryAfterMs' in error ? error.retryAfterMs : undefined
  return typeof asked === 'number' ? Math.min(asked + 100, LONGEST_PAUSE_MS) : LONGEST_PAUSE_MS
}
