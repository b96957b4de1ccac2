import { renameSync } from 'node:fs'
import { chmod, lstat, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { type UnpackOptions, unpackWorkspace } from '../../runtime/workspace/archive/unpack.ts'
import { walkMembers } from '../../runtime/workspace/archive/walk-members.ts'
import { FileFault } from '../../runtime/workspace/file-fault.ts'
import { HELD_SUFFIX, isGitDirectory, isGitName } from '../../runtime/workspace/git/git-names.ts'
import { atHandle, withHandle } from '../../runtime/workspace/handles.ts'
import { openWorkspace } from '../../runtime/workspace/open-workspace.ts'
import { parentOf, type WorkspacePath } from '../../runtime/workspace/parse-path.ts'
import { openDirectory, type Tree } from '../../runtime/workspace/tree.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

export interface Pulled {
  readonly folder: string
  readonly entries: number
  readonly bytes: number
  /** Entries that were left out: git's own files, and links to them. */
  readonly leftOut: readonly string[]
  /** Files that were renamed, so that git does not take their folder for a repository. */
  readonly held: readonly string[]
}

const LIMITS = { maxEntries: FILE_LIMITS.maxArchiveEntries, maxBytes: FILE_LIMITS.maxArchiveBytes }
type Header = Parameters<NonNullable<UnpackOptions['admit']>>[1]

/** Throws unless the folder is empty or does not exist, in an existing folder. */
export async function requireEmpty(folder: string): Promise<void> {
  const stats = await lstat(folder).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw usageError(`The folder ${folder} cannot be used.`)
  })
  const isFree = stats === undefined || (stats.isDirectory() && (await readdir(folder)).length === 0)
  if (!isFree) throw usageError(`${folder} exists and is not an empty folder.`, 'Name a new one.')
  const parent = await lstat(dirname(folder)).catch(() => undefined)
  if (!parent) throw usageError(`The folder ${dirname(folder)} does not exist.`)
}

/**
 * Unpacks the files of a run, which an agent wrote, into a new folder. They appear at once and completely, or not at all.
 * Nothing that git would obey is among them.
 */
export async function pullFiles(
  archive: AsyncIterable<Uint8Array>,
  folder: string,
  signal: AbortSignal,
): Promise<Pulled> {
  const staging = await mkdtemp(join(dirname(folder), `.${basename(folder)}.agentweaver-`))
  try {
    const leftOut = new Set<string>()
    const tree = await openWorkspace(staging)
    try {
      const admit = (path: WorkspacePath, header: Header) => admitted(path, header, leftOut)
      const summary = await unpackWorkspace(tree, archive, { limits: LIMITS, signal, admit })
      const held = await holdRepositories(tree)
      await chmod(staging, 0o777 & ~process.umask())
      await rename(staging, folder)
      return { folder, ...summary, entries: summary.entries - leftOut.size, leftOut: [...leftOut], held }
    } finally {
      tree.close()
    }
  } catch (error) {
    throw error instanceof FileFault ? hostile(error) : error
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

const hostile = (cause: FileFault): CliError =>
  new CliError(`The files of the run cannot be unpacked: ${cause.message}`, {
    status: EXIT.refused,
    hint: 'Nothing was written.',
    cause,
  })

const names = (path: string | null | undefined) => (path ?? '').split(/[\\/]/)

/** The owner can read and remove everything that is unpacked. */
function admitted(path: WorkspacePath, header: Header, leftOut: Set<string>): Header | undefined {
  if ([...path.names.flatMap(names), ...names(header.linkname)].some(isGitName)) {
    leftOut.add(path.text)
    return undefined
  }
  return { ...header, mode: header.mode | (header.type === 'directory' ? 0o700 : 0o600) }
}

/** A folder that git takes for a repository runs what its configuration names at the next git command in it. */
async function holdRepositories(tree: Tree): Promise<string[]> {
  const folders = new Map<string, WorkspacePath[]>()
  for await (const { path } of walkMembers(tree, { onOmitted: () => undefined })) {
    const parent = parentOf(path).text
    const known = folders.get(parent)
    if (known) known.push(path)
    else folders.set(parent, [path])
  }
  const held: string[] = []
  for (const paths of folders.values()) {
    if (!isGitDirectory(paths.map(lastName))) continue
    for (const path of paths.filter((one) => lastName(one).toLowerCase() === 'head')) {
      holdFile(tree, path)
      held.push(path.text)
    }
  }
  return held
}

const lastName = (path: WorkspacePath): string => path.names.at(-1) ?? ''

function holdFile(tree: Tree, path: WorkspacePath): void {
  withHandle(openDirectory(tree, parentOf(path)), (directory) =>
    renameSync(atHandle(directory, lastName(path)), atHandle(directory, `${lastName(path)}${HELD_SUFFIX}`)),
  )
}
