import { delay, withTimeout } from '../../kit/deadline.ts'
import { createActiveRuns } from './active-runs.ts'
import { Approvals } from './approvals.ts'
import { createAuditTrail } from './audit-trail.ts'
import { createRunCommands } from './commands.ts'
import { createDecisions } from './decisions.ts'
import type { RunDeps } from './deps.ts'
import { Lifecycle } from './lifecycle.ts'
import { renderMetrics } from './metrics.ts'
import { recoverRuns } from './recover.ts'
import { createRunReads } from './run-reads.ts'
import { createSandboxPolicy } from './sandbox-policy.ts'
import type { RunService } from './service.ts'
import { servingRunFinder } from './serving-run.ts'
import type { RepositorySettingsReader } from './start-run.ts'
import { holdStore } from './store-lease.ts'
import { createUploads } from './uploads.ts'

export type RunServiceDeps = RunDeps & { readonly readRepositorySettings: RepositorySettingsReader }

const FILE_TIMEOUT_MS = 60_000
const CLOSE_GRACE_MS = 10_000
const LEASE_TTL_MS = 15_000
const STOPPED = { state: 'failed', code: 'api_restarted', message: 'the service was stopped' } as const

/** The executor behind the API: every method of `RunService`, composed of the parts in this folder. */
export function createRunService(deps: RunServiceDeps): RunService {
  const { store, provider } = deps
  const audit = createAuditTrail(deps.keys)
  const approvals = new Approvals(deps)
  const finishParts = { audit, approvals }
  const active = createActiveRuns(deps, finishParts)
  const policy = createSandboxPolicy(store, deps.ceiling)
  const uploads = createUploads(deps, { ...finishParts, policy, active })
  const commands = createRunCommands(deps, audit)
  const start = { run: deps, policy, readRepositorySettings: deps.readRepositorySettings }
  const lifecycle = new Lifecycle({ deps, start, active, uploads, finishParts })
  const findServing = servingRunFinder(store, active)
  let lease: Awaited<ReturnType<typeof holdStore>> | undefined
  const onLost = () => {
    deps.log.error('another service took over the store; the runs of this one end')
    for (const driven of active.list()) driven.end(STOPPED)
  }

  return {
    async start() {
      if (store.engine === 'postgres')
        lease = await holdStore(store, { ttlMs: LEASE_TTL_MS, onLost, log: deps.log })
      // First: what an earlier process left can only be collected where the provider works.
      await provider.start()
      await recoverRuns(deps, finishParts)
    },
    async close() {
      uploads.close()
      for (const driven of active.list()) driven.end(STOPPED)
      await Promise.race([Promise.all(active.list().map(({ finished }) => finished)), delay(CLOSE_GRACE_MS)])
      await provider.close()
      await lease?.release()
    },

    startRun: (caller, request) => lifecycle.startRun(caller, request),
    createSandbox: (caller, request) => lifecycle.createSandbox(caller, request),
    uploadWorkspace: (caller, id, archive) => lifecycle.uploadWorkspace(caller, id, archive),
    startTurn: (caller, id, turn) => lifecycle.startTurn(caller, id, turn),
    cancel: (caller, id) => lifecycle.cancel(caller, id),
    destroySandbox: (caller, id) => lifecycle.end(caller, id),
    ...createRunReads(store, active),
    ...createDecisions({ store, approvals, active }),

    startCommand: async (caller, id, command) =>
      commands.start(caller, await findServing(caller, id), command),
    cancelCommand: async (caller, id, commandId) => commands.cancel(await findServing(caller, id), commandId),
    async file(caller, id, { operation, payload }) {
      const driven = await findServing(caller, id)
      const { client } = await driven.serving
      driven.sign()
      return client.file(operation, payload ?? new Uint8Array(0), withTimeout(FILE_TIMEOUT_MS))
    },

    readPolicy: () => policy.read(),
    replacePolicy: (caller, patch) => policy.replace(caller, patch),
    mergePolicy: (caller, patch) => policy.merge(caller, patch),
    metrics: () => renderMetrics(store, active),
  }
}
