import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { API_KEY_FILE, FOLDER_SEAL_FILE, SERVICE_FILE, ServiceFile } from '../../contracts/api-env.ts'
import { equalsInConstantTime } from '../../runtime/kit/constant-time.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { folderSeal, readSealKey } from '../../runtime/kit/folder-seal.ts'

export const STATE_FOLDER = '.agentweaver'
/** Rights of group and others: a service gives them none. */
const SHARED_BITS = 0o077
/** Far more than any of these files has. */
const MAX_BYTES = 4096

/** A state folder that this user's own service made, where it made it. */
export interface StateFolder {
  readonly path: string
  readonly from: string
  readonly apiKey: string
  /** Where its service listens, as long as it runs. */
  readonly serviceUrl: string | undefined
}

/** A folder that looks like one and is not used. */
export interface IgnoredFolder {
  readonly path: string
  readonly reason: string
}

export type Found = {
  readonly folder: StateFolder | undefined
  readonly ignored: readonly IgnoredFolder[]
}

/** Why something is not believed, in words for people. */
class Distrust extends Error {}

/**
 * The nearest state folder at or above `from`, else the one at home. It is known by its key: a repository has a
 * folder of the same name for its own settings. Whoever makes a repository or an archive can put a key there too,
 * so one that a service of this user did not make in this place is passed over, and said to be.
 */
export const findStateFolder = (from: string, home: string): Found =>
  readStateFolders(candidates(from, home), home)

type Candidate = { readonly path: string; readonly from: string }

/** The first of the candidates that is one. */
export function readStateFolders(candidates: Iterable<Candidate>, home: string): Found {
  const key = readSealKey(home)
  const ignored: IgnoredFolder[] = []
  for (const candidate of candidates) {
    try {
      const folder = readStateFolder(candidate, key)
      if (folder) return { folder, ignored }
    } catch (error) {
      if (!(error instanceof Distrust)) throw error
      ignored.push({ path: candidate.path, reason: error.message })
    }
  }
  return { folder: undefined, ignored }
}

function* candidates(from: string, home: string): Generator<Candidate> {
  const atHome = join(home, STATE_FOLDER)
  let isHomeAbove = false
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, STATE_FOLDER)
    isHomeAbove ||= path === atHome
    yield { path, from: 'found at or above this folder' }
    if (dirname(folder) === folder) break
  }
  if (!isHomeAbove) yield { path: atHome, from: 'found at home' }
}

function readStateFolder({ path, from }: Candidate, key: Uint8Array | undefined): StateFolder | undefined {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (!found || !lstatSync(join(path, API_KEY_FILE), { throwIfNoEntry: false })) return undefined
  if (!found.isDirectory()) throw new Distrust('it is not a folder')
  requireOwn('it', Number(found.uid), Number(found.mode))
  const apiKey = readOwn(path, API_KEY_FILE)?.trim() ?? ''
  const seal = readOwn(path, FOLDER_SEAL_FILE) ?? ''
  if (key === undefined || !equalsInConstantTime(seal, folderSeal(found, key)))
    throw new Distrust('no service made it here: it was copied, unpacked or checked out')
  return { path, from, apiKey, serviceUrl: serviceUrlOf(path) }
}

function requireOwn(what: string, owner: number, mode: number): void {
  if (owner !== process.getuid?.()) throw new Distrust(`${what} belongs to another user`)
  if ((mode & SHARED_BITS) !== 0) throw new Distrust(`${what} can be used by others than its owner`)
}

/** A small file of the folder; what is judged is what is read, and a link is not followed. */
function readOwn(folder: string, name: string): string | undefined {
  let file: number
  try {
    file = openSync(join(folder, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    const errno = errnoOf(error)
    if (errno === 'ENOENT') return undefined
    throw new Distrust(`${name} in it cannot be read (${errno ?? 'unknown'})`, { cause: error })
  }
  try {
    const { uid, mode, size } = fstatSync(file)
    requireOwn(`${name} in it`, uid, mode)
    if ((mode & constants.S_IFMT) !== constants.S_IFREG || size > MAX_BYTES)
      throw new Distrust(`${name} in it is not a file of a service`)
    return readFileSync(file, 'utf8')
  } finally {
    closeSync(file)
  }
}

/** Where the folder's service says it listens: only on this machine, and only while its process is this user's. */
function serviceUrlOf(folder: string): string | undefined {
  const text = readOwn(folder, SERVICE_FILE)
  const service = text === undefined ? undefined : parse(text)
  if (service === undefined || !isLoopback(service.url) || !isOwnProcess(service.pid)) return undefined
  return service.url
}

function parse(text: string): ServiceFile | undefined {
  try {
    return ServiceFile.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

const isLoopback = (url: string): boolean =>
  ['127.0.0.1', '[::1]', 'localhost'].includes(URL.parse(url)?.hostname ?? '')

const isOwnProcess = (pid: number): boolean =>
  statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === process.getuid?.()
