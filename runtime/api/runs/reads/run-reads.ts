import type { Run } from '../../../../contracts/api.ts'
import { deadline } from '../../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import { seesAllRuns } from '../../people/rights.ts'
import { MANIFEST_ROOMS } from '../checkpoints/manifest-room.ts'
import type { RunDeps } from '../deps.ts'
import { openWorkspaceArchive } from '../launch/restore.ts'
import type { RunViews } from '../queue/queue-view.ts'
import { readDiff, readResult } from '../results/run-results.ts'
import { isFinal, requireRunToFollow, requireRunToRead } from '../run-view.ts'
import type { Caller, RunService } from '../service.ts'
import type { SandboxUse } from '../use/serving-run.ts'
import { readRunEgress } from './run-egress.ts'
import { subscribeToRun } from './subscribe.ts'

type Reads = Pick<
  RunService,
  | 'readRun'
  | 'listRuns'
  | 'downloadWorkspace'
  | 'readDiff'
  | 'readPatch'
  | 'readBundle'
  | 'readEvents'
  | 'readEgress'
  | 'subscribe'
  | 'ready'
>

type ReadDeps = Pick<RunDeps, 'store' | 'provider'> & { readonly views: RunViews }
type FindServing = (caller: Caller, id: string) => Promise<SandboxUse>

/** A large workspace that is downloaded keeps others out for as long. */
const ROOM_WAIT_MS = 15_000
/** Readiness turns false within two seconds of a fault of the store. */
const STORE_CHECK_MS = 1_500

async function* workspaceOf({ client, done }: SandboxUse, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* await client.getWorkspace(signal)
  } finally {
    await done()
  }
}

type OnFolder = Extract<Run['workspace'], { kind: 'path' }>

const whereWorkIs = (id: string, { path, mode }: OnFolder): string =>
  mode === 'isolated'
    ? `its copy of the folder is gone. "agentweaver diff ${id}" shows what it changed, and "agentweaver fetch ${id}" fetches its commits`
    : `its workspace is the folder ${path} itself`

/** Reads of runs. A run that the caller may not see does not exist for it. */
export function createRunReads({ store, provider, views }: ReadDeps, findServing: FindServing): Reads {
  const checkStore = oneAtATime(() => store.ping())
  return {
    readRun: async (caller, id) => views.of(await requireRunToFollow(store, caller, id)),
    async listRuns(caller, { kind, limit, after }) {
      const mine = seesAllRuns(caller) ? {} : { owner: caller.owner }
      const page = await store.listRuns({ kind, limit, ...mine, ...present({ after }) })
      return {
        items: await Promise.all(page.items.map((row) => views.of(row))),
        ...present({ next: page.next }),
      }
    },
    async downloadWorkspace(caller, id, signal) {
      const run = await requireRunToRead(store, caller, id)
      if (!isFinal(run)) return workspaceOf(await findServing(caller, id), signal)
      if (run.workspace.kind === 'path') {
        throw new SandboxError('run_ended', `run ${id} has ended; ${whereWorkIs(id, run.workspace)}`)
      }
      const room = MANIFEST_ROOMS.downloading
      const archive = await openWorkspaceArchive(store, run, { room, signal, waitMs: ROOM_WAIT_MS })
      if (!archive)
        throw new SandboxError(
          'not_found',
          `run ${id} has no stored workspace: it never had one, or its checkpoint was deleted after the retention`,
        )
      return archive
    },
    readEgress: async (caller, id) => readRunEgress(store, await requireRunToFollow(store, caller, id)),
    readDiff: async (caller, id) => readDiff(store, await requireRunToRead(store, caller, id)),
    readPatch: async (caller, id) => readResult(store, await requireRunToRead(store, caller, id), 'patch'),
    readBundle: async (caller, id) => readResult(store, await requireRunToRead(store, caller, id), 'bundle'),
    async readEvents(caller, id, { after, limit }) {
      await requireRunToFollow(store, caller, id)
      return store.readEvents(id, after, limit)
    },
    async subscribe(caller, id, from) {
      const run = await requireRunToFollow(store, caller, id)
      if (isFinal(run) && from.after >= run.lastSequence) return undefined
      // A reader would wait forever for a position that the run has not reached.
      return subscribeToRun(store, id, { ...from, after: Math.min(from.after, run.lastSequence) })
    },
    async ready() {
      const problem = await deadline('a write to the store', STORE_CHECK_MS, checkStore()).then(
        () => undefined,
        messageOf,
      )
      const stored = { name: 'store', ok: problem === undefined, detail: problem ?? store.engine }
      const checks = [stored, ...(provider.checks?.() ?? [])]
      return { ready: checks.every(({ ok }) => ok), checks }
    },
  }
}

/** Callers that come while the work is under way wait for the same work. */
function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let current: Promise<void> | undefined
  return () => {
    current ??= work().finally(() => {
      current = undefined
    })
    return current
  }
}
