import type { FileErrorCode } from '../../contracts/files.ts'
import type { Before, PlannedWrite } from './plan-patch.ts'
import type { WorkspaceFiles } from './workspace-files.ts'

type Undo = { readonly path: string; readonly run: () => Promise<{ ok: boolean }> }
type Written =
  | { readonly ok: true }
  | { readonly ok: false; readonly code: FileErrorCode; readonly message: string }

/**
 * Writes planned changes in order. If one fails, the earlier ones are reverted in reverse order; folders
 * created for new files stay. Takes no signal: a cancelled turn must not leave half of a patch.
 */
export async function writeAllOrNothing(
  files: WorkspaceFiles,
  writes: readonly PlannedWrite[],
): Promise<Written> {
  const undos: Undo[] = []
  for (const write of writes) {
    const result = await perform(files, write, undos)
    if (result.ok) continue
    const stuck = await undoAll(undos)
    const rest =
      stuck.length === 0 ? 'Nothing was changed' : `These files could not be restored: ${stuck.join(', ')}`
    return { ...result, message: `${write.path}: ${result.message}. ${rest}` }
  }
  return { ok: true }
}

/**
 * Applies one change. Each step that succeeds adds its undo, so that it is reverted if a later step of the same
 * change fails.
 */
async function perform(files: WorkspaceFiles, write: PlannedWrite, undos: Undo[]): Promise<Written> {
  if (write.kind === 'add')
    return add(files, { path: write.path, content: write.content, ...modeOf(write.mode) }, undos)
  if (write.kind === 'delete') return remove(files, write, undos)
  if (write.kind === 'move') {
    const added = await add(files, { path: write.movedTo, content: write.content, mode: write.mode }, undos)
    return added.ok ? remove(files, write, undos) : added
  }
  const result = await files.write(write.path, write.content, { create: 'never', ...modeOf(write.mode) })
  if (result.ok) undos.push(restore(files, write))
  return result
}

type Addition = { readonly path: string; readonly content: string | Uint8Array; readonly mode?: number }

async function add(
  files: WorkspaceFiles,
  { path, content, mode }: Addition,
  undos: Undo[],
): Promise<Written> {
  const options = { create: 'exclusive' as const, ...modeOf(mode) }
  const result = await files.write(path, content, options)
  if (result.ok) undos.push({ path, run: () => files.delete(path) })
  return result
}

type Existing = { readonly path: string; readonly before: Before }

async function remove(files: WorkspaceFiles, { path, before }: Existing, undos: Undo[]): Promise<Written> {
  const result = await files.delete(path)
  if (result.ok) undos.push(restore(files, { path, before }))
  return result
}

const restore = (files: WorkspaceFiles, { path, before }: Existing): Undo => ({
  path,
  run: () => files.write(path, before.bytes, { create: 'allowed', mode: before.mode }),
})

const modeOf = (mode: number | undefined) => (mode === undefined ? {} : { mode })

async function undoAll(undos: readonly Undo[]): Promise<string[]> {
  const stuck: string[] = []
  for (const { path, run } of undos.toReversed()) {
    const { ok } = await run()
    if (!ok) stuck.push(path)
  }
  return stuck
}
