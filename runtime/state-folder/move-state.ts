import { createHash } from 'node:crypto'
import {
  closeSync,
  constants,
  copyFileSync,
  createReadStream,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { errnoOf, messageOf, SandboxError } from '../kit/errors.ts'
import { hasState, STATE_ENTRIES } from './earlier-folder.ts'
import { SEAL_FILE } from './folder-seal.ts'
import { WORKSPACES_FOLDER } from './places.ts'
import { openPrivateFolder } from './private-folder.ts'
import { LOCK_FILE, lockStateFolder } from './state-lock.ts'

const LOCK_JOURNAL = `${LOCK_FILE}-journal`
/**
 * Files that a running service leaves in its folder for other processes. None of them is state, so a move skips them.
 */
const TRACES = ['service.json', 'service.sock', SEAL_FILE, LOCK_FILE, LOCK_JOURNAL]

/** Records the copied files and their source folder. The new folder holds this file until the old folder is empty. */
const RECORD_FILE = 'moved.json'
const Record = z.object({
  from: z.string(),
  /** SHA-256 of each file by its path inside the folder. */
  files: z.record(z.string(), z.string()),
})
type Record = z.infer<typeof Record>

type Move = { readonly from: string; readonly to: string }

/**
 * Moves the state of a service into another folder, also across file systems. It copies everything into a temporary
 * sibling of the new folder, renames that sibling to the new folder, and only then deletes the old files. A move that
 * is interrupted before the rename leaves the old folder intact. After the rename, the next move or start deletes the
 * remaining old files. Returns the paths of the moved files.
 */
export async function moveState({ from, to }: Move): Promise<readonly string[]> {
  const interrupted = recordIn(to)
  if (interrupted?.from === from) return finishInterrupted(to, interrupted)
  requireMovable(from, to)
  using _from = locked(from)
  const incoming = `${to}.incoming`
  mkdirSync(incoming, { recursive: true, mode: 0o700 })
  using _private = openPrivateFolder(incoming)
  // The lock moves with the folder, so no service starts in it before the old folder is empty.
  using _to = locked(incoming)
  const files = await replaceBy(incoming, { from, to })
  await emptyOld({ from, files })
  // SQLite looks for the journal of the lock where the folder was.
  for (const name of [RECORD_FILE, LOCK_JOURNAL]) rmSync(join(to, name), { force: true })
  return Object.keys(files)
}

/** Copies the state and renames the copy to the new folder. A failed copy is deleted, because it contains keys. */
async function replaceBy(incoming: string, { from, to }: Move): Promise<Record['files']> {
  discard(incoming)
  try {
    const files = await copyFiles(from, incoming)
    const record = JSON.stringify({ from, files } satisfies Record)
    writeFileSync(join(incoming, RECORD_FILE), record, { flag: 'wx', mode: 0o600, flush: true })
    syncPath(incoming)
    takeName(incoming, to)
    return files
  } catch (error) {
    rmSync(incoming, { recursive: true, force: true })
    throw error
  }
}

function locked(folder: string): Disposable {
  return { [Symbol.dispose]: lockStateFolder(folder) }
}

async function finishInterrupted(to: string, { files }: Record): Promise<readonly string[]> {
  using _to = locked(to)
  await finishMove(to)
  return Object.keys(files)
}

/**
 * Deletes what an interrupted move left in the old folder; returns that folder, or undefined if no move was interrupted.
 * The caller holds the lock of the new folder. A file that has changed since it was copied stays.
 */
export async function finishMove(to: string): Promise<string | undefined> {
  const record = recordIn(to)
  if (!record) return undefined
  if (hasState(record.from)) {
    using _from = locked(record.from)
    await emptyOld(record)
  }
  rmSync(join(to, RECORD_FILE))
  return record.from
}

function recordIn(to: string): Record | undefined {
  using folder = openPrivateFolder(to)
  const text = folder?.readFile(RECORD_FILE)
  return text === undefined ? undefined : Record.parse(JSON.parse(text))
}

function requireMovable(from: string, to: string): void {
  if (from === to) throw refused(`${to} is the state folder already.`)
  using folder = openPrivateFolder(from)
  if (!folder || !hasState(from)) throw refused(`${from} does not contain the state of a service.`)
  requireNoCopies(join(from, WORKSPACES_FOLDER))
  if (hasState(to)) throw refused(`${to} has a state already, and two cannot be merged. ${elsewhere(from)}`)
}

/** The working copies of runs depend on their absolute path and may hold work that is stored nowhere else. */
function requireNoCopies(workspaces: string): void {
  if (!existsSync(workspaces) || readdirSync(workspaces).length === 0) return
  throw refused(
    `${workspaces} contains results of runs that are not stored yet; nothing was moved. Start the service on ${dirname(workspaces)} once more to store them. Then keep the files that it could not store, and delete the rest.`,
  )
}

const elsewhere = (from: string): string =>
  `Use the other one where it is with AGENTWEAVER_STATE_DIR=${from}, or move it to a folder of its own: AGENTWEAVER_STATE_DIR=DIR agentweaver move-state ${from}`

const refused = (message: string, cause?: unknown) => new SandboxError('conflict', message, { cause })

/** What an interrupted move copied; the lock of this one stays. */
function discard(incoming: string): void {
  for (const name of readdirSync(incoming)) {
    if (!name.startsWith(LOCK_FILE)) rmSync(join(incoming, name), { recursive: true })
  }
}

async function copyFiles(from: string, to: string): Promise<Record['files']> {
  const files: Record['files'] = {}
  for (const path of filesOf(from)) {
    const copy = join(to, path)
    mkdirSync(dirname(copy), { recursive: true, mode: 0o700 })
    copyFileSync(join(from, path), copy, constants.COPYFILE_EXCL)
    syncPath(copy)
    files[path] = await digestOf(copy)
  }
  for (const folder of new Set(Object.keys(files).map((path) => dirname(join(to, path))))) syncPath(folder)
  return files
}

/** The paths of the files of a state. Something that is neither a file nor a folder is no service's. */
function filesOf(folder: string): string[] {
  const pathsAt = (path: string): string[] => {
    const found = lstatSync(join(folder, path), { throwIfNoEntry: false })
    if (!found) return []
    if (found.isFile()) return [path]
    if (found.isDirectory())
      return readdirSync(join(folder, path)).flatMap((name) => pathsAt(join(path, name)))
    throw refused(`${join(folder, path)} is neither a file nor a folder; nothing was moved.`)
  }
  return STATE_ENTRIES.flatMap(pathsAt)
}

/** Renames the copy to the state folder in one step. It replaces only a folder without state. */
function takeName(incoming: string, to: string): void {
  using _to = existsSync(to) ? locked(to) : undefined
  if (hasState(to)) throw refused(`${to} has a state already; nothing was moved.`)
  for (const name of TRACES) rmSync(join(to, name), { force: true })
  try {
    renameSync(incoming, to)
  } catch (error) {
    throw refused(`${to} cannot be replaced; nothing was moved: ${messageOf(error)}`, error)
  }
  syncPath(dirname(to))
}

async function emptyOld({ from, files }: Record): Promise<void> {
  for (const [path, digest] of Object.entries(files)) {
    const file = join(from, path)
    const isThere = lstatSync(file, { throwIfNoEntry: false })?.isFile() === true
    if (isThere && (await digestOf(file)) === digest) rmSync(file)
  }
  const folders = [...new Set(Object.keys(files).map(dirname))].filter((folder) => folder !== '.')
  for (const folder of folders.sort((a, b) => b.length - a.length)) removeIfEmpty(join(from, folder))
  if (hasState(from)) return
  removeIfEmpty(join(from, WORKSPACES_FOLDER))
  for (const name of TRACES) rmSync(join(from, name), { force: true })
  removeIfEmpty(from)
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch (error) {
    if (errnoOf(error) !== 'ENOTEMPTY' && errnoOf(error) !== 'ENOENT') throw error
  }
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  return hash.digest('hex')
}

/** Waits until a file or the entries of a folder are on the disk. */
function syncPath(path: string): void {
  const descriptor = openSync(path, constants.O_RDONLY)
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
