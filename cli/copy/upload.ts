import type { FileEntry } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { isGitName } from '../../runtime/workspace/git/git-names.ts'
import type { WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { visible } from '../terminal/visible.ts'
import { type Copied, sizeWords } from './copied.ts'
import type { RemoteFiles } from './remote-files.ts'
import { isExecutable, joined, nameOf, planCopy } from './walk.ts'

export type LocalSource = {
  readonly workspace: WorkspaceEngine
  /** Path below the workspace's root. */
  readonly path: string
}
type Destination = { readonly remote: RemoteFiles; readonly path: string; readonly isFolder: boolean }

/** Copies a file or folder of this machine into a sandbox. Links are not followed, so that only the named files leave. */
export async function upload(
  { workspace, path }: LocalSource,
  destination: Destination,
  onStart: (files: number) => (done: Pick<Copied, 'files' | 'bytes'>) => void,
): Promise<Omit<Copied, 'from' | 'to'>> {
  const entry = await requireEntry(workspace, path)
  const plan = await planCopy({
    top: entry,
    at: await destinationPath(entry, destination),
    childrenOf: (folder) => childrenOf(workspace, folder.path),
    reasonToSkip,
  })
  for (const { entry } of plan.files) requireSendable(entry)
  const report = onStart(plan.files.length)
  const done = { files: 0, bytes: 0 }
  for (const { entry, at } of plan.files) {
    const { result, payload } = await workspace.perform({ op: 'read', path: entry.path })
    if (!result.ok) throw new CliError(result.message, { status: EXIT.usage })
    await destination.remote.write(at, payload, isExecutable(entry) ? '755' : undefined)
    done.files++
    done.bytes += payload.byteLength
    report(done)
  }
  return { ...done, skipped: plan.skipped, handOff: [] }
}

async function requireEntry(workspace: WorkspaceEngine, path: string): Promise<FileEntry> {
  const { result } = await workspace.perform({ op: 'stat', path })
  if (!result.ok || !result.entry)
    throw usageError(result.ok ? `${visible(path)} cannot be read.` : `${visible(result.message)}.`)
  const { type } = result.entry
  if (type === 'symlink')
    throw usageError(`${visible(path)} is a symbolic link. Name the file or folder that it leads to.`)
  if (type === 'other') throw usageError(`${visible(path)} is neither a file nor a folder.`)
  return result.entry
}

/** Like `cp`: into a folder that exists, otherwise to this name. */
async function destinationPath(entry: FileEntry, { remote, path, isFolder }: Destination): Promise<string> {
  const existing = path === '.' ? 'directory' : (await remote.find(path))?.type
  if (existing !== undefined && existing !== 'directory' && entry.type === 'directory')
    throw usageError(`${visible(entry.path)} is a folder, and ${visible(path)} in the workspace is not.`)
  const isInto = existing === 'directory' || (isFolder && entry.type !== 'directory')
  const name = entry.path === '.' ? '' : nameOf(entry)
  return isInto && name !== '' ? joined(path, name) : path
}

function requireSendable({ path, size }: FileEntry): void {
  if (size <= FILE_LIMITS.maxWriteBytes) return
  throw usageError(
    `${visible(path)} has ${sizeWords(size)}. A file that is copied into a run may have ${sizeWords(FILE_LIMITS.maxWriteBytes)}.`,
    'Nothing was copied. Split the file, and join the parts in the sandbox with agentweaver exec.',
  )
}

const reasonToSkip = ({ path }: FileEntry): string | undefined =>
  path !== '.' && isGitName(nameOf({ path })) ? "git's own files are not copied" : undefined

async function* childrenOf(workspace: WorkspaceEngine, path: string): AsyncGenerator<FileEntry> {
  let after: string | undefined
  do {
    const { result } = await workspace.perform({ op: 'list', path, ...(after !== undefined && { after }) })
    if (!result.ok) throw new CliError(`${visible(result.message)}.`, { status: EXIT.usage })
    yield* result.entries ?? []
    after = result.next
  } while (after !== undefined)
}
