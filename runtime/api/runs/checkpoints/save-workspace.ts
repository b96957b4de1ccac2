import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FILE_LIMITS } from '../../../../contracts/limits.ts'
import type { ManifestEntry } from '../../../../contracts/workspace-manifest.ts'
import type { AgentHostClient } from '../../../agent-host-client/client.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { StoredWorkspace } from '../../../store/checkpoint.ts'
import type { RunRow, Store } from '../../../store/store.ts'
import { isStoreFault } from '../../../store/store-fault.ts'
import { FileFault } from '../../../workspace/file-fault.ts'
import { judgeManifest } from '../../../workspace/snapshot/judge-manifest.ts'
import { HandledManifest, MANIFEST_ROOMS, ManifestRoomTaken } from './manifest-room.ts'
import { planPacks, type Wanted } from './plan-packs.ts'
import {
  decodeManifest,
  encodeManifest,
  type Location,
  type Locations,
  TREE_LIMITS,
} from './stored-manifest.ts'
import { verifiedPack } from './verified-pack.ts'

/** A workspace in which files change all the time is stored as an archive after so many attempts. */
const MAX_ATTEMPTS = 3
/** A quarter of the time that a checkpoint in the middle of a turn has. */
const ROOM_WAIT_MS = 7_500
/** Lines between two pauses in which the process serves other requests. */
const LINES_PER_PAUSE = 1_000

export type SavedWorkspace = StoredWorkspace & { readonly contents: readonly string[] }

type Saving = {
  readonly store: Store
  readonly run: Pick<RunRow, 'id' | 'owner'>
  readonly client: Pick<AgentHostClient, 'getManifest' | 'getPack' | 'getWorkspace'>
  readonly signal: AbortSignal
}

/**
 * Stores the workspace of a sandbox: a manifest, and the contents that the last checkpoint does not have. A workspace that
 * cannot be stored like this is stored as one archive: AgentHost is of an earlier release, a path has no portable form,
 * files keep changing, or the manifest is large and others of that kind are handled.
 */
export async function saveWorkspace(saving: Saving): Promise<SavedWorkspace> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const saved = await saveManifest(saving).catch((error: unknown) => {
      saving.signal.throwIfAborted()
      if (!isChange(error)) throw error
      return 'changed' as const
    })
    if (saved === 'unusable') break
    if (saved !== 'changed') return saved
  }
  return saveArchive(saving)
}

/** A file was changed or deleted between the manifest and its transfer. The latter ends the transfer. */
const isChange = (error: unknown): boolean =>
  error instanceof SandboxError &&
  (error.code === 'conflict' || error.code === 'sandbox_lost' || error.code === 'workspace_invalid')

async function saveArchive({ store, run, client, signal }: Saving): Promise<SavedWorkspace> {
  const content = { owner: run.owner, maxBytes: FILE_LIMITS.maxArchiveBytes }
  const { sha256 } = await store.writeContent(content, await client.getWorkspace(signal))
  return { kind: 'archive', sha256, contents: [sha256] }
}

async function saveManifest(saving: Saving): Promise<SavedWorkspace | 'unusable'> {
  const { run, signal } = saving
  const room = MANIFEST_ROOMS.saving
  const handled = new HandledManifest({ room, owner: run.owner, signal, waitMs: ROOM_WAIT_MS })
  try {
    return await saveHandled(saving, handled)
  } catch (error) {
    // An archive needs more time and little memory.
    if (error instanceof ManifestRoomTaken) return 'unusable'
    throw error
  } finally {
    handled.done()
  }
}

async function saveHandled(saving: Saving, handled: HandledManifest): Promise<SavedWorkspace | 'unusable'> {
  const { store, run, client, signal } = saving
  const text = await readManifest(client, handled, signal)
  if (text === undefined) return 'unusable'
  const tree = createHash('sha256').update(text).digest('hex')
  const last = await store.readCheckpoint(run.id)
  if (last?.workspace?.tree === tree) {
    return { ...last.workspace, contents: last.contents.filter((sha256) => sha256 !== last.session) }
  }
  const entries = await judged(text)
  if (entries === undefined) return 'unusable'
  const { kept, groups } = planPacks(entries, await lastLocations(store, last, handled))
  const locations = new Map(kept)
  for (const group of groups) {
    for (const [file, location] of await receive(saving, group)) locations.set(file, location)
  }
  const manifest = await encodeManifest(text, locations)
  const content = { owner: run.owner, maxBytes: manifest.length }
  const { sha256 } = await store.writeContent(content, one(manifest))
  const contents = new Set([...locations.values()].map((location) => location.content))
  return { kind: 'manifest', sha256, tree, contents: [sha256, ...contents] }
}

/** Undefined if this AgentHost sends no manifest, or one that is too long. */
async function readManifest(
  client: Saving['client'],
  handled: HandledManifest,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    return (await handled.collect(await client.getManifest(signal))).toString()
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof SandboxError && NO_MANIFEST.has(error.code)) return undefined
    throw error
  }
}

const NO_MANIFEST: ReadonlySet<string> = new Set(['not_found', 'payload_too_large'])

/** Undefined if the manifest could not be unpacked. */
async function judged(text: string): Promise<ManifestEntry[] | undefined> {
  const entries: ManifestEntry[] = []
  try {
    for (const entry of judgeManifest(text, TREE_LIMITS)) {
      entries.push(entry)
      if (entries.length % LINES_PER_PAUSE === 0) await nextTurn()
    }
    return entries
  } catch (error) {
    if (error instanceof FileFault) return undefined
    throw error
  }
}

async function lastLocations(
  store: Store,
  last: Awaited<ReturnType<Store['readCheckpoint']>>,
  handled: HandledManifest,
): Promise<Locations> {
  if (last?.workspace?.kind !== 'manifest') return new Map()
  try {
    const stored = await handled.collect(await store.readContent(last.owner, last.workspace.sha256))
    return (await decodeManifest(stored, handled)).locations
  } catch (error) {
    if (isStoreFault(error) || error instanceof ManifestRoomTaken) throw error
    // A last manifest that cannot be read must not prevent the next one.
    return new Map()
  }
}

async function receive(
  { store, run, client, signal }: Saving,
  group: readonly Wanted[],
): Promise<Map<string, Location>> {
  const pack = await client.getPack(
    group.map(({ sha256 }) => sha256),
    signal,
  )
  const maxBytes = group.reduce((total, { size }) => total + size, 0)
  const content = { owner: run.owner, maxBytes }
  const { sha256 } = await store.writeContent(content, verifiedPack(pack, group))
  let offset = 0
  return new Map(
    group.map((file) => {
      const location = { content: sha256, offset, size: file.size }
      offset += file.size
      return [file.sha256, location]
    }),
  )
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
