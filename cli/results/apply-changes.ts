import { createHash } from 'node:crypto'
import type { FileOperationInput } from '../../contracts/files.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import type { WorkspaceEngine } from '../../runtime/workspace/open-workspace.ts'
import { parentOf, type WorkspacePath } from '../../runtime/workspace/parse-path.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import { visible } from '../terminal/visible.ts'
import { isSameVersion, readLocal } from './local-file.ts'
import type { Change } from './plan-changes.ts'

export type Contents = ReadonlyMap<string, Uint8Array>

const failed = (message: string, cause?: unknown): CliError =>
  new CliError(message, { status: EXIT.refused, hint: 'Your files are as they were.', cause })

/** Throws if a content is not the one that the diff announces. */
export function verifyContents(changes: readonly Change[], contents: Contents): void {
  for (const { path, after } of changes) {
    if (!after) continue
    const bytes = contents.get(path.text)
    if (bytes && createHash('sha256').update(bytes).digest('hex') === after.sha256) continue
    throw failed(`The service has another content of ${visible(path.text)} than its diff says.`)
  }
}

/**
 * Writes the changes into the user's folder, each file atomically, and restores all of them if one fails. Ctrl-C waits for
 * the end. A file that changed since it was compared is a failure.
 */
export async function applyChanges(
  workspace: WorkspaceEngine,
  changes: readonly Change[],
  contents: Contents,
): Promise<void> {
  using _interrupts = onInterrupt(() => undefined)
  const done: Change[] = []
  const folders: WorkspacePath[] = []
  try {
    for (const change of changes) {
      const now = await readLocal(workspace, change.path)
      if (!isAsPlanned(change, now)) throw new Error(`${visible(change.path.text)} changed meanwhile`)
      folders.push(...(await missingFolders(workspace, change)))
      done.push(change)
      await write(workspace, change, contents)
    }
  } catch (error) {
    await restore(workspace, done, folders)
    throw failed(`The changes cannot be applied: ${messageOf(error)}.`, error)
  }
}

const isAsPlanned = ({ local }: Change, now: Change['local']): boolean =>
  local.kind === now.kind &&
  (local.kind !== 'file' || now.kind !== 'file' || isSameVersion(local.version, now.version))

async function write(workspace: WorkspaceEngine, change: Change, contents: Contents): Promise<void> {
  const path = change.path.text
  if (!change.after) return perform(workspace, { op: 'delete', path })
  const create = change.local.kind === 'file' ? 'never' : 'exclusive'
  return perform(workspace, { op: 'write', path, create, mode: modeOf(change) }, contents.get(path))
}

function modeOf({ after, local }: Change): number {
  const umask = process.umask()
  const mode = local.kind === 'file' ? local.mode : 0o666 & ~umask
  return after?.mode === 'executable' ? mode | (0o111 & ~umask) : mode & ~0o111
}

async function perform(
  workspace: WorkspaceEngine,
  operation: FileOperationInput,
  payload?: Uint8Array,
): Promise<void> {
  const { result } = await workspace.perform(operation, { payload })
  if (!result.ok) throw new Error(result.message)
}

async function missingFolders(workspace: WorkspaceEngine, { path, after }: Change): Promise<WorkspacePath[]> {
  const missing: WorkspacePath[] = []
  for (let at = parentOf(path); after && at.names.length > 0; at = parentOf(at)) {
    const { result } = await workspace.perform({ op: 'stat', path: at.text })
    if (result.ok) break
    missing.unshift(at)
  }
  return missing
}

async function restore(
  workspace: WorkspaceEngine,
  done: readonly Change[],
  folders: readonly WorkspacePath[],
): Promise<void> {
  const lost: string[] = []
  for (const change of done.toReversed())
    await restoreFile(workspace, change).catch(() => lost.push(change.path.text))
  for (const folder of folders.toReversed())
    await perform(workspace, { op: 'delete', path: folder.text }).catch(() => undefined)
  if (lost.length === 0) return
  throw new CliError(`These files could not be restored: ${lost.map(visible).join(', ')}`, {
    status: EXIT.runFailed,
  })
}

async function restoreFile(workspace: WorkspaceEngine, { path, local }: Change): Promise<void> {
  if (local.kind === 'file')
    return perform(workspace, { op: 'write', path: path.text, mode: local.mode }, local.bytes)
  const now = await readLocal(workspace, path)
  if (now.kind !== 'absent') await perform(workspace, { op: 'delete', path: path.text })
}
