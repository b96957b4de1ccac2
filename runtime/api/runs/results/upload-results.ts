import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RunEvent } from '../../../../contracts/events.ts'
import { type FileVersion, RESULTS_LIMITS } from '../../../../contracts/results.ts'
import type { Conclusion } from '../../../git/conclude-folder.ts'
import type { FileStat } from '../../../git/results.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import { messageOf } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import { contentsOf } from '../../../workspace/archive/archive-files.ts'
import { MANIFEST_ROOMS } from '../checkpoints/manifest-room.ts'
import type { RunDeps } from '../deps.ts'
import { openWorkspaceArchive } from '../launch/restore.ts'
import { storeResults } from './run-results.ts'
import { type FilePair, patchOfFile } from './unified-diff.ts'
import { manifestOf, type UploadManifest } from './upload-manifest.ts'

type Deps = Pick<RunDeps, 'store' | 'redactResult' | 'log'>
type Open = () => Promise<AsyncIterable<Uint8Array> | undefined>

const TIMEOUT_MS = 300_000
/** A large download may be using the room. */
const ROOM_WAIT_MS = 60_000
/** Larger files are listed without their lines. */
const MAX_TEXT_BYTES = 1_048_576
const MAX_COMPARED_BYTES = 67_108_864
/** Folders that a package manager fills. */
const INSTALLED = /^(?:.*?\/)?(?:node_modules|\.venv|venv|__pycache__|\.tox)\//

/**
 * Stores the changes of a run in its uploaded folder: the upload against the files of the last checkpoint. The service compares
 * them itself, so nothing that the run did to its git directory can hide a change. Never fails a run.
 */
export async function storeUploadResults(deps: Deps, { id }: Pick<RunRow, 'id'>): Promise<RunEvent[]> {
  const { store, redactResult: redact, log } = deps
  try {
    const run = await store.readRun(id)
    if (run?.workspace.kind !== 'upload' || !(await store.readCheckpoint(id))?.workspace) return []
    const opening = { room: MANIFEST_ROOMS.restoring, signal: withTimeout(TIMEOUT_MS), waitMs: ROOM_WAIT_MS }
    const conclusion = await compare(
      async () => (await store.readBlob(id, 'base'))?.chunks,
      () => openWorkspaceArchive(store, run, opening),
    ).catch(uncompared)
    return conclusion ? await storeResults({ store, redact }, { run, conclusion }) : []
  } catch (error) {
    log.warn('the changes of an uploaded folder could not be stored', { error, runId: id })
    return []
  }
}

/** The files can still be downloaded. */
const uncompared = (error: unknown): Conclusion => ({
  written: [],
  hadUncommittedChanges: false,
  isComplete: false,
  problems: [`The changes of the run could not be listed: ${messageOf(error)}.`],
})

async function compare(openBefore: Open, openAfter: Open): Promise<Conclusion | undefined> {
  const before = await manifestFrom(openBefore)
  const after = await manifestFrom(openAfter)
  if (!before || !after) return undefined
  const { pairs, installed } = changesOf(before, after)
  const texts = await readTexts(pairs, openBefore, openAfter)
  const files: FileStat[] = []
  const patches: string[] = []
  let length = 0
  for (const pair of pairs) {
    const patch = patchOfFile(pair, texts(pair))
    files.push(statOf(pair, patch))
    if (length <= RESULTS_LIMITS.maxPatchBytes) patches.push(patch.text)
    length += patch.text.length
    await nextTurn()
  }
  const patch = Buffer.from(patches.join(''), 'latin1')
  return {
    written: pairs.flatMap(({ path, after: file }) => (file ? [path] : [])),
    diff: {
      patch: patch.subarray(0, RESULTS_LIMITS.maxPatchBytes),
      isCut: length > RESULTS_LIMITS.maxPatchBytes,
      files,
    },
    hadUncommittedChanges: false,
    isComplete: true,
    problems: installedWords(installed),
  }
}

async function manifestFrom(open: Open): Promise<UploadManifest | undefined> {
  const archive = await open()
  return archive && manifestOf(archive)
}

const isSame = (a: FileVersion | undefined, b: FileVersion | undefined) =>
  a?.sha256 === b?.sha256 && a?.mode === b?.mode

function changesOf(before: UploadManifest, after: UploadManifest) {
  const known = new Set([...before.keys()].flatMap((path) => INSTALLED.exec(path)?.[0] ?? []))
  const installed = new Map<string, number>()
  const pairs = [...new Set([...before.keys(), ...after.keys()])].sort().flatMap((path): FilePair[] => {
    const pair = { path, ...present({ before: before.get(path), after: after.get(path) }) }
    if (isSame(pair.before, pair.after)) return []
    const folder = INSTALLED.exec(path)?.[0]
    if (folder === undefined || known.has(folder)) return [pair]
    installed.set(folder, (installed.get(folder) ?? 0) + 1)
    return []
  })
  return { pairs: withRenames(pairs), installed }
}

/** A deleted file and a new one with the same content are one renamed file. */
function withRenames(pairs: readonly FilePair[]): FilePair[] {
  const deleted = new Map(
    pairs.flatMap((pair) =>
      pair.before && !pair.after && pair.before.size > 0 ? [[pair.before.sha256, pair] as const] : [],
    ),
  )
  const renamed = new Set<FilePair>()
  const joined = pairs.map((pair) => {
    const source = pair.after && !pair.before ? deleted.get(pair.after.sha256) : undefined
    if (!source || renamed.has(source)) return pair
    renamed.add(source)
    return { ...pair, from: source.path, ...present({ before: source.before }) }
  })
  return joined.filter((pair) => !renamed.has(pair))
}

const installedWords = (installed: ReadonlyMap<string, number>): string[] =>
  [...installed].map(
    ([folder, count]) =>
      `The run installed ${count.toLocaleString('en')} files in ${folder}. They are not in the diff; a download has them.`,
  )

/** Reads the content of the changed text files, up to a limit for all of them together. */
async function readTexts(pairs: readonly FilePair[], openBefore: Open, openAfter: Open) {
  let bytes = 0
  const compared = pairs.filter(({ before, after }) => {
    const sizes = [before?.size ?? 0, after?.size ?? 0]
    const total = bytes + sizes.reduce((sum, size) => sum + size, 0)
    if (Math.max(...sizes) > MAX_TEXT_BYTES || total > MAX_COMPARED_BYTES) return false
    bytes = total
    return true
  })
  const old = compared.flatMap(({ path, from = path, before }) => (before ? [from] : []))
  const recent = compared.flatMap(({ path, after }) => (after ? [path] : []))
  const before = await textsFrom(openBefore, new Set(old))
  const after = await textsFrom(openAfter, new Set(recent))
  return ({ path, from = path }: FilePair) => ({ before: before.get(from), after: after.get(path) })
}

async function textsFrom(open: Open, wanted: ReadonlySet<string>): Promise<ReadonlyMap<string, Buffer>> {
  const archive = wanted.size > 0 ? await open() : undefined
  return archive ? contentsOf(archive, { wanted, maxBytes: MAX_COMPARED_BYTES }) : new Map()
}

function statOf(pair: FilePair, { additions, deletions }: ReturnType<typeof patchOfFile>): FileStat {
  const { path, from, before, after } = pair
  return { path, status: statusOf(pair), ...present({ from, before, after, additions, deletions }) }
}

function statusOf({ from, before, after }: FilePair): FileStat['status'] {
  if (from !== undefined) return 'renamed'
  if (!before) return 'added'
  if (!after) return 'deleted'
  return (before.mode === 'link') === (after.mode === 'link') ? 'modified' : 'type changed'
}
