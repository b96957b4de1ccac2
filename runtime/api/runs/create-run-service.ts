import { delay } from '../../kit/deadline.ts'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { Lifecycle } from './admit/lifecycle.ts'
import { createPolicyProposals } from './admit/propose-policy.ts'
import { createSandboxPolicy, type SandboxPolicy } from './admit/sandbox-policy.ts'
import { createTrustedFolders } from './admit/trusted-folders.ts'
import { createUploads } from './admit/uploads.ts'
import { type AuditTrail, createAuditTrail } from './audit-trail.ts'
import type { RunDeps } from './deps.ts'
import { type ActiveRuns, createActiveRuns } from './drive/active-runs.ts'
import type { FinishParts } from './drive/finish.ts'
import { Approvals } from './gates/approvals.ts'
import { createOwnerCalls } from './owners/owner-calls.ts'
import { createPushes } from './push/push-results.ts'
import { Dispatcher } from './queue/dispatcher.ts'
import { createRunViews } from './queue/queue-view.ts'
import { watchQueue } from './queue/watch-queue.ts'
import { createAuditReads } from './reads/audit-reads.ts'
import { createModelList } from './reads/list-models.ts'
import { createOperationReads } from './reads/operation-reads.ts'
import { createRunReads } from './reads/run-reads.ts'
import { Holder } from './replicas/holder.ts'
import { createPresence, type Presence } from './replicas/presence.ts'
import { ReaperFigures, startReaper } from './replicas/reaper.ts'
import { recoverRuns } from './replicas/recover.ts'
import { holdStore } from './replicas/store-lease.ts'
import { sweepStored } from './replicas/sweep-stored.ts'
import { watchSuspendedRuns } from './replicas/sweep-suspended.ts'
import { type TakeoverParts, takeOverRuns, watchAbandonedRuns } from './replicas/takeover.ts'
import { createRestrictionCalls } from './restrictions/set-restriction.ts'
import type { RunService } from './service.ts'
import { createAllowedHosts } from './use/allow-host.ts'
import { createRunCommands } from './use/commands.ts'
import { createDecisions } from './use/decisions.ts'
import { createFileCalls } from './use/file-calls.ts'
import { type SandboxUse, servingRunFinder } from './use/serving-run.ts'

export type RunServiceDeps = Omit<RunDeps, 'holder'>

const CLOSE_GRACE_MS = 10_000
const LEASE_TTL_MS = 15_000
/** A process that was killed is known to be gone after so long; its calls wait for a decision twice as long. */
const HOLDER_TTL_MS = 12_000
const TAKEOVER_EVERY_MS = 3_000
const STOPPED = { state: 'failed', code: 'api_restarted', message: 'the service was stopped' } as const

/** The executor behind the API: every method of `RunService`, composed of the parts in this folder. */
export function createRunService(given: RunServiceDeps): RunService {
  const deps = { ...given, holder: new Holder() }
  const { store, provider } = deps
  const audit = createAuditTrail(deps.keys)
  const approvals = new Approvals(deps, audit)
  const finishParts = { audit, approvals }
  const active = createActiveRuns(deps, finishParts, () => queue.wake())
  const queue = new Dispatcher(deps, active)
  deps.onModelBudgetSpent?.((runId, ending) => active.get(runId)?.end(ending))
  const policy = createSandboxPolicy(deps, audit)
  const views = createRunViews(deps)
  const uploads = createUploads(deps, finishParts)
  const calls = { commands: createRunCommands(deps, audit), file: createFileCalls(deps, audit) }
  const start = { run: deps, policy, audit }
  const lifecycle = new Lifecycle({ deps, start, active, queue, uploads, views, finishParts })
  const findServing = servingRunFinder(deps, active)
  const { reaper, presence } = { reaper: new ReaperFigures(), presence: createPresence(deps) }
  let sweeps: ReturnType<typeof startSweeps> = []
  let lease: Awaited<ReturnType<typeof holdStore>> | undefined
  const onLost = () => {
    deps.metrics?.lostLease('store')
    if (provider.shared) return sharing.abandonAll()
    deps.log.error('another service took over the store; the runs of this one end')
    void queue.close()
    for (const driven of active.list()) driven.end(STOPPED)
  }

  /** Sandboxes outlive their process: several processes serve one store, and take over from each other. */
  const sharing = createSharing(deps, { active, uploads, audit, queue, presence, figures: reaper })

  return {
    async hold() {
      if (store.engine !== 'postgres') return
      const isShared = provider.shared !== undefined
      lease = await holdStore(store, { ttlMs: LEASE_TTL_MS, isShared, onLost, log: deps.log })
    },
    async start() {
      // Before the first run can start.
      const restrictions = await deps.restrictions.start()
      // First: the sandboxes of an earlier process can only be collected where the provider works.
      await (provider.shared ? sharing.start() : provider.start())
      if (!provider.shared) await recoverRuns(deps, { ...finishParts, uploads })
      sweeps = [restrictions, ...startSweeps(deps, finishParts, queue)]
    },
    async close() {
      uploads.close()
      await Promise.all(sweeps.map((sweep) => sweep.stop()))
      await queue.close()
      if (provider.shared) {
        await sharing.close()
        await lease?.release()
        return provider.close()
      }
      await stopDriving(active, deps.log)
      await provider.close()
      await lease?.release()
    },

    startRun: (caller, request) => lifecycle.startRun(caller, request),
    forkRun: (caller, id, request) => lifecycle.forkRun(caller, id, request),
    createSandbox: (caller, request) => lifecycle.createSandbox(caller, request),
    uploadWorkspace: (caller, id, archive) => lifecycle.uploadWorkspace(caller, id, archive),
    startTurn: (caller, id, turn) => lifecycle.startTurn(caller, id, turn),
    ...lifecycle.stops(),
    ...createRunReads({ ...deps, views }, findServing),
    ...createDecisions({ store, approvals, active, queue, log: deps.log }),
    ...createPushes({ start, audit, findServing, queue, lifecycle }),
    ...createSandboxUses(findServing, calls),

    ...policyCalls(deps, policy, audit),
    ...createRestrictionCalls(deps, audit, () => queue.wake()),
    ...recordCalls({ ...deps, views }, audit),
    ...createOperationReads({ ...deps, active, reaper, presence }),
  }
}

/** Reads of the audit, and what the store has of an owner. */
const recordCalls = (deps: Parameters<typeof createOwnerCalls>[0], audit: AuditTrail) => ({
  ...createAuditReads(deps, audit),
  ...createOwnerCalls(deps, audit),
})

const policyCalls = (
  deps: RunDeps,
  policy: SandboxPolicy,
  audit: AuditTrail,
): ReturnType<typeof createTrustedFolders> &
  Pick<
    RunService,
    'listModels' | 'readPolicy' | 'replacePolicy' | 'mergePolicy' | 'proposePolicy' | 'allowEgress'
  > => ({
  ...createModelList(deps),
  ...createPolicyProposals(deps, policy),
  ...createAllowedHosts(deps, policy, audit),
  ...createTrustedFolders(deps, policy),
  readPolicy: (caller, scope = {}) => policy.read(caller, scope),
  replacePolicy: (caller, patch, scope = {}) => policy.replace(caller, patch, scope),
  mergePolicy: (caller, patch, scope = {}) => policy.merge(caller, patch, scope),
})

/** Starts the queued runs and the sweeps of runs without a driver. */
function startSweeps(deps: RunDeps, parts: FinishParts, queue: Dispatcher) {
  queue.wake()
  const lasting = deps.isTemporary ? [] : [watchSuspendedRuns(deps, parts), sweepStored(deps)]
  return [watchQueue(deps, { ...parts, queue }), ...lasting]
}

/** Runs that wait are saved before their sandboxes go with this process; other runs are interrupted. */
async function stopDriving(active: ActiveRuns, log: Log): Promise<void> {
  const waiting = active.list().filter(({ isQuiet, run }) => isQuiet && !run.endsWithService)
  const suspending = waiting.map((driven) =>
    driven.suspend().catch((error: unknown) => {
      log.info('a run was not suspended before the stop', { runId: driven.run.id, error: messageOf(error) })
    }),
  )
  await Promise.race([Promise.all(suspending), delay(CLOSE_GRACE_MS)])
  for (const driven of active.list()) driven.end(STOPPED)
  await Promise.race([Promise.all(active.list().map(({ finished }) => finished)), delay(CLOSE_GRACE_MS)])
}

type SandboxCalls = {
  readonly commands: ReturnType<typeof createRunCommands>
  readonly file: ReturnType<typeof createFileCalls>
}
type SandboxUses = Pick<RunService, 'startCommand' | 'cancelCommand' | 'file'>

/** The requests of callers that use the sandbox of a run directly. */
function createSandboxUses(
  findServing: ReturnType<typeof servingRunFinder>,
  { commands, file }: SandboxCalls,
): SandboxUses {
  return {
    startCommand: (caller, id, command) =>
      using(findServing(caller, id), (use) => commands.start(caller, use, command)),
    cancelCommand: (caller, id, commandId) =>
      using(findServing(caller, id), (use) => commands.cancel(use, commandId)),
    file: (caller, id, request) => using(findServing(caller, id), (use) => file(caller, use, request)),
  }
}

async function using<T>(finding: Promise<SandboxUse>, work: (use: SandboxUse) => Promise<T>): Promise<T> {
  const use = await finding
  try {
    return await work(use)
  } finally {
    await use.done()
  }
}

type SharingParts = TakeoverParts & {
  readonly audit: AuditTrail
  readonly queue: Dispatcher
  readonly figures: ReaperFigures
  readonly presence: Presence
}

/** The life of a process among others that serve the same store. */
function createSharing(deps: RunDeps & { readonly holder: Holder }, parts: SharingParts) {
  const { store, provider, holder, log } = deps
  const { active, audit, queue, figures, presence } = parts
  let reaper: ReturnType<typeof startReaper> | undefined
  let watching: ReturnType<typeof watchAbandonedRuns> | undefined
  const abandonAll = () => {
    for (const driven of active.list()) driven.abandon()
  }
  return {
    abandonAll,
    async start() {
      await provider.start()
      const onLost = () => {
        deps.metrics?.lostLease('process')
        abandonAll()
      }
      await holder.hold(store, { ttlMs: HOLDER_TTL_MS, onLost, log })
      await presence.start()
      await takeOverRuns(deps, active)
      watching = watchAbandonedRuns(deps, parts, TAKEOVER_EVERY_MS)
      provider.claims?.onRoom(() => queue.noteRoom())
      if (provider.claims) reaper = startReaper(deps, { claims: provider.claims, audit, figures })
    },
    /** Hands active runs over to other processes. No run ends. */
    async close() {
      await watching?.stop()
      await reaper?.stop()
      await presence.stop()
      abandonAll()
      await Promise.race([Promise.all(active.list().map(({ finished }) => finished)), delay(CLOSE_GRACE_MS)])
      await holder.release(store)
    },
  }
}
