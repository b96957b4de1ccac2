import { join } from 'node:path'
import type { FolderMode } from '../../contracts/api.ts'
import { bwrapBackend } from '../../runtime/executors/bwrap.ts'
import type { Backend, Layout } from '../../runtime/executors/executor.ts'
import { concludeFolder } from '../../runtime/git/conclude-folder.ts'
import { createGitSandbox } from '../../runtime/git/git-sandbox.ts'
import { prepareFolder } from '../../runtime/git/prepare-folder.ts'
import type { FolderRecord } from '../../runtime/git/run-folder.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { execute, type Outcome } from '../conformance/executor-cases/subject.ts'
import type { Place } from './repository.ts'

export const RUN_ID = `run_${'0'.repeat(31)}1`

const ISOLATION = {
  backend: 'linux-bwrap',
  isRealIsolation: true,
  enforcesEgress: false,
  reason: 'test',
} as const

/** Runs git in the sandbox of a backend, as the service does. */
export const gitIn = (backend: Backend) =>
  createGitSandbox({
    select: async () => ({
      backend,
      detection: { ok: true, isolation: ISOLATION, warnings: [] },
      passedOver: [],
    }),
    toolRoots: [],
    log: silentLog,
  })

/** Runs commands in a folder, with a layout or, as the control of an attack, without one. */
export async function runIn(
  backend: Backend,
  { workspace, layout }: { readonly workspace: string; readonly layout?: Layout },
  commands: readonly string[],
): Promise<Outcome[]> {
  const executor = await backend.create({ workspace, toolRoots: [], layout, log: silentLog })
  const outcomes: Outcome[] = []
  for (const command of commands) outcomes.push(await execute(executor, command))
  await executor.close()
  return outcomes
}

/** A run on a folder without the service: prepare, run commands, conclude. */
export function runOn(place: Place, mode: FolderMode, backend: Backend = bwrapBackend) {
  const directory = join(place.folder, 'state', RUN_ID)
  const runGit = gitIn(backend)
  let record: FolderRecord | undefined
  const conclude = async () => {
    if (!record) throw new Error('the folder is not prepared')
    return concludeFolder(record, directory, runGit)
  }
  return {
    directory,
    prepare: async () => {
      const user = { home: place.home }
      const prepared = await prepareFolder({
        runId: RUN_ID,
        path: place.project,
        mode,
        directory,
        user,
        runGit,
      })
      record = prepared.record
      return prepared
    },
    run: (...commands: string[]) => {
      if (!record) throw new Error('the folder is not prepared')
      return runIn(backend, { workspace: record.root, layout: record.layout }, commands)
    },
    conclude,
  }
}

interface Work {
  readonly mode: FolderMode
  readonly commands: readonly string[]
  /** @default bubblewrap */
  readonly backend?: Backend
}

/** Prepares a run, runs the commands and concludes it. */
export async function afterRun(place: Place, { mode, commands, backend }: Work) {
  const run = runOn(place, mode, backend)
  const { record } = await run.prepare()
  const outcomes = await run.run(...commands)
  const conclusion = await run.conclude()
  return { record, outcomes, conclusion, patch: conclusion.diff?.patch.toString('utf8') ?? '' }
}
