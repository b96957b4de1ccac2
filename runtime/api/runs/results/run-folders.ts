import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FolderMode, RunId } from '../../../../contracts/api.ts'
import type { RunEvent } from '../../../../contracts/events.ts'
import type { WorkspaceLayout } from '../../../../contracts/workspace-layout.ts'
import { concludeFolder } from '../../../git/conclude-folder.ts'
import type { GitUser } from '../../../git/configuration.ts'
import { chooseFolderMode } from '../../../git/folder-mode.ts'
import type { RunGit } from '../../../git/git-sandbox.ts'
import { type PreparedFolder, prepareFolder } from '../../../git/prepare-folder.ts'
import { absent } from '../../../git/read-data.ts'
import { type FolderRecord, folderFiles } from '../../../git/run-folder.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { errnoOf, SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow, Store } from '../../../store/store.ts'
import { type RunResultsDeps, storeResults } from './run-results.ts'

/** The folder of a run, as its sandbox is configured with it. */
export interface RunFolder {
  readonly root: string
  readonly layout: WorkspaceLayout
  /** Events for people when the folder is ready. */
  readonly events: readonly RunEvent[]
}

export interface RunFoldersDeps extends RunResultsDeps {
  readonly store: Store
  /** A folder in the state of the service. */
  readonly directory: string
  readonly user: GitUser
  /** Runs git in a sandbox; undefined where nothing isolates it. */
  readonly gitSandbox: () => Promise<RunGit | undefined>
  readonly log: Log
}

const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT'])

/** A full disk is an outage like one of the store, which is on the same disk: the same work may succeed later. */
function asOutage(error: unknown): never {
  if (!FULL.has(errnoOf(error) ?? '')) throw error
  const message =
    'The disk of the state folder is full, so the folder of the run cannot be prepared. Free some space.'
  throw new SandboxError('unavailable', message, { cause: error })
}

/** How long a copy is kept whose results could not be made. */
const KEPT_MS = 7 * 86_400_000
const KEPT_FILE = 'kept'
const MAX_READ_ONLY = 64

/** Folders of the user that runs work on: prepared before the first command, concluded when the run is over. */
export function createRunFolders(deps: RunFoldersDeps) {
  const { store, user, gitSandbox, log } = deps
  const placeOf = (runId: string) => join(deps.directory, RunId.parse(runId))

  async function readRecord(runId: string): Promise<FolderRecord | undefined> {
    const text = await readFile(folderFiles(placeOf(runId)).record, 'utf8').catch(absent)
    return text === undefined ? undefined : JSON.parse(text)
  }

  return {
    async chooseMode(path: string, wanted: FolderMode | undefined, isForAgent: boolean): Promise<FolderMode> {
      const canIsolate = (await gitSandbox()) !== undefined
      return chooseFolderMode({ path, wanted, isForAgent, canIsolate })
    },

    /** A run that is launched again finds its folder as it was prepared. */
    async prepare({ id, workspace }: RunRow, signal: AbortSignal): Promise<RunFolder | undefined> {
      if (workspace.kind !== 'path') return undefined
      const known = await readRecord(id)
      if (known) return folderOf(known)
      const { path } = workspace
      const mode = FolderMode.parse(workspace.mode ?? 'in-place')
      const runGit = await gitSandbox()
      const request = { runId: id, path, mode, directory: placeOf(id), user, runGit, signal }
      const prepared = await prepareFolder(request).catch(asOutage)
      return { ...folderOf(prepared.record), events: [preparedEvent(prepared)] }
    },

    /**
     * Stores the results of a run and removes its copy, when no process of the run works in it any more. Never fails a
     * run: missing parts are reported.
     */
    async conclude(run: Pick<RunRow, 'id' | 'owner' | 'settings'>): Promise<RunEvent[]> {
      const events: RunEvent[] = []
      await bestEffort(log, `conclude the folder of run ${run.id}`, async () => {
        const record = await readRecord(run.id)
        if (record && !(await isKept(placeOf(run.id)))) await concludeOne(run, record, events)
      })
      if (!(await isKept(placeOf(run.id)))) await remove(placeOf(run.id))
      return events
    },

    /** Removes what services left that were killed. Runs that are not over are concluded before. */
    async sweep(): Promise<void> {
      for (const name of (await readdir(deps.directory).catch(absent)) ?? [])
        if (!(await isInUse(name))) await remove(join(deps.directory, name))
    },
  }

  async function concludeOne(
    run: Pick<RunRow, 'id' | 'owner' | 'settings'>,
    record: FolderRecord,
    events: RunEvent[],
  ): Promise<void> {
    const directory = placeOf(run.id)
    const conclusion = await concludeFolder(record, directory, await gitSandbox())
    const { held } = conclusion
    if (held && (held.count > 0 || !held.isComplete)) events.push({ type: 'workspace.held', data: held })
    // The work of the run is in the copy alone.
    const isLost = record.mode === 'isolated' && !conclusion.isComplete
    if (isLost) await writeFile(join(directory, KEPT_FILE), '')
    const keptAt = isLost ? record.root : undefined
    events.push(...(await storeResults(deps, { run, conclusion, ...present({ keptAt }) })))
  }

  async function isInUse(name: string): Promise<boolean> {
    const run = RunId.safeParse(name).success ? await store.readRun(name) : undefined
    return (run && run.endedAt === undefined) || isRecent(join(deps.directory, name))
  }

  async function remove(directory: string): Promise<void> {
    await bestEffort(log, `remove ${directory}`, () => rm(directory, REMOVAL))
  }
}

export type RunFolders = ReturnType<typeof createRunFolders>

const REMOVAL = { recursive: true, force: true, maxRetries: 3 }

const isKept = async (directory: string) =>
  (await stat(join(directory, KEPT_FILE)).catch(absent)) !== undefined

async function isRecent(directory: string): Promise<boolean> {
  const kept = await stat(join(directory, KEPT_FILE)).catch(absent)
  return kept !== undefined && Date.now() - kept.mtimeMs < KEPT_MS
}

function folderOf({ root, layout }: FolderRecord): RunFolder {
  return { root, layout, events: [] }
}

function preparedEvent({ record, copied, hasUncommittedChanges }: PreparedFolder): RunEvent {
  const { mode, path, layout } = record
  return {
    type: 'workspace.prepared',
    data: {
      mode,
      path,
      ...(copied && { files: copied.files, bytes: copied.bytes }),
      ...(copied &&
        copied.unreadable.count > 0 && {
          unreadable: { ...copied.unreadable, names: [...copied.unreadable.names] },
        }),
      hasUncommittedChanges,
      readOnly: layout.readOnly.slice(0, MAX_READ_ONLY),
    },
  }
}
