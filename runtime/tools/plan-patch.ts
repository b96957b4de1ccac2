import type { FileErrorCode } from '../../contracts/files.ts'
import { applyHunks } from '../kit/patch/apply-hunks.ts'
import type { FileChange } from '../kit/patch/patch-model.ts'
import type { WorkspaceFiles } from './workspace-files.ts'

/** The planned change of one file, computed in memory. `before` is used to restore it. */
export type PlannedWrite =
  | { readonly kind: 'add'; readonly path: string; readonly content: string; readonly mode?: number }
  | { readonly kind: 'delete'; readonly path: string; readonly before: Before }
  | {
      readonly kind: 'update'
      readonly path: string
      readonly content: string | Uint8Array
      readonly before: Before
      readonly mode?: number
    }
  | {
      readonly kind: 'move'
      readonly path: string
      readonly movedTo: string
      readonly content: string | Uint8Array
      readonly before: Before
      readonly mode: number
    }

export type Before = { readonly bytes: Uint8Array; readonly mode: number }

type Problem = { readonly ok: false; readonly code: FileErrorCode; readonly message: string }
type Planned = { readonly ok: true; readonly write: PlannedWrite } | Problem
type Plan = { readonly ok: true; readonly writes: readonly PlannedWrite[] } | Problem

/** Reads all files that a patch touches and computes their new content, before anything is written. */
export async function planPatch(
  files: WorkspaceFiles,
  changes: readonly FileChange[],
  signal: AbortSignal,
): Promise<Plan> {
  const writes: PlannedWrite[] = []
  for (const change of changes) {
    const planned = await planChange(files, change, signal)
    if (!planned.ok) return planned
    writes.push(planned.write)
  }
  return { ok: true, writes }
}

async function planChange(files: WorkspaceFiles, change: FileChange, signal: AbortSignal): Promise<Planned> {
  if (change.kind === 'add') return planAdd(files, change, signal)
  const before = await readBefore(files, change.path, signal)
  if (!before.ok) return before
  if (change.kind === 'update') return planUpdate(files, { change, before, signal })
  const { path, hunks } = change
  if (hunks.length > 0) {
    const rest = textAfter(path, before.bytes, hunks)
    if (!rest.ok) return rest
    if (rest.text !== '') return problem('no_match', `${path} has more lines than the patch deletes`)
  }
  return { ok: true, write: { kind: 'delete', path, before } }
}

type Addition = Extract<FileChange, { kind: 'add' }>

async function planAdd(files: WorkspaceFiles, change: Addition, signal: AbortSignal): Promise<Planned> {
  const free = await mustBeFree(files, change.path, signal)
  if (!free.ok) return free
  const mode = change.mode === undefined ? {} : { mode: change.mode }
  return { ok: true, write: { kind: 'add', path: change.path, content: change.content, ...mode } }
}

type Update = {
  readonly change: Extract<FileChange, { kind: 'update' }>
  readonly before: Before
  readonly signal: AbortSignal
}

async function planUpdate(files: WorkspaceFiles, { change, before, signal }: Update): Promise<Planned> {
  const { path, movedTo, hunks, mode } = change
  // Without hunks, nothing is read as text, so binary files can also be moved or change their mode.
  const after =
    hunks.length === 0 ? { ok: true as const, text: undefined } : textAfter(path, before.bytes, hunks)
  if (!after.ok) return after
  const content = after.text ?? before.bytes
  if (movedTo === undefined) {
    return {
      ok: true,
      write: { kind: 'update', path, content, before, ...(mode === undefined ? {} : { mode }) },
    }
  }
  const free = await mustBeFree(files, movedTo, signal)
  if (!free.ok) return free
  return { ok: true, write: { kind: 'move', path, movedTo, content, before, mode: mode ?? before.mode } }
}

async function readBefore(files: WorkspaceFiles, path: string, signal: AbortSignal) {
  const stat = await files.stat(path, signal)
  if (!stat.ok) return stat
  if (stat.entry === undefined) return problem('not_found', `${path} does not exist`)
  const read = await files.read(path, signal)
  return read.ok ? { ok: true as const, bytes: read.bytes, mode: stat.entry.mode & 0o777 } : read
}

async function mustBeFree(files: WorkspaceFiles, path: string, signal: AbortSignal) {
  const stat = await files.stat(path, signal)
  if (!stat.ok) return stat
  return stat.entry === undefined ? { ok: true as const } : problem('exists', `${path} exists already`)
}

function textAfter(path: string, bytes: Uint8Array, hunks: Parameters<typeof applyHunks>[1]) {
  const text = decode(bytes)
  if (text === undefined) return problem('binary', `${path} is not UTF-8 text and cannot be patched`)
  const applied = applyHunks(text, hunks)
  return applied.ok ? applied : problem(applied.code, `${path}: ${applied.message}`)
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const problem = (code: FileErrorCode, message: string): Problem => ({ ok: false, code, message })
