import { withTimeout } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import { createActiveRuns } from './active-runs.ts'
import { createApprovals } from './approvals.ts'
import { createAuditTrail } from './audit-trail.ts'
import { createRunCommands } from './commands.ts'
import { createDecisions } from './decisions.ts'
import type { RunDeps } from './deps.ts'
import { createRunLifecycle } from './lifecycle.ts'
import { renderMetrics } from './metrics.ts'
import { recoverRuns } from './recover.ts'
import { isFinal, requireRun, toRun } from './run-view.ts'
import { createSandboxPolicy } from './sandbox-policy.ts'
import type { RunService } from './service.ts'
import type { RepositorySettingsReader } from './start-run.ts'
import { subscribeToRun } from './subscribe.ts'
import { createUploads } from './uploads.ts'

export type RunServiceDeps = RunDeps & { readonly readRepositorySettings: RepositorySettingsReader }

const FILE_TIMEOUT_MS = 60_000
const ARCHIVE_TIMEOUT_MS = 600_000
const CLOSE_GRACE_MS = 10_000

/** The executor behind the API: every method of `RunService`, composed of the parts in this folder. */
export function createRunService(deps: RunServiceDeps): RunService {
  const { store, provider } = deps
  const audit = createAuditTrail(deps.keys)
  const approvals = createApprovals(deps)
  const finishParts = { audit, approvals }
  const active = createActiveRuns(deps, finishParts)
  const policy = createSandboxPolicy(store, deps.ceiling)
  const uploads = createUploads(deps, { ...finishParts, policy, active })
  const commands = createRunCommands(deps, audit)
  const start = { run: deps, policy, readRepositorySettings: deps.readRepositorySettings }
  const lifecycle = createRunLifecycle({ deps, start, active, uploads, finishParts })
  const decisions = createDecisions({ store, approvals, active })
  const see: typeof requireRun = requireRun

  /** The driver of a run that serves; a run that has ended or waits for its upload has none. */
  const requireActive = async (...[caller, id]: Parameters<RunService['cancel']>) => {
    const run = await see(store, caller, id)
    const driven = active.get(id)
    if (driven) return driven
    throw isFinal(run)
      ? new SandboxError('run_ended', `run ${id} has ended (${run.state})`)
      : new SandboxError('run_not_ready', `run ${id} is ${run.state}`)
  }

  return {
    async start() {
      await recoverRuns(deps, finishParts)
      await provider.start()
    },
    async close() {
      uploads.close()
      for (const driven of active.list())
        driven.end({ state: 'failed', code: 'api_restarted', message: 'the service was stopped' })
      const drained = Promise.allSettled(active.list().map((driven) => driven.finished))
      await Promise.race([drained, new Promise((resolve) => setTimeout(resolve, CLOSE_GRACE_MS).unref())])
      await provider.close()
    },

    ...lifecycle,
    ...decisions.forCallers,
    readRun: async (caller, id) => toRun(await see(store, caller, id)),
    async listRuns(caller, { kind, limit, after }) {
      const owner = caller.role === 'operator' ? {} : { owner: caller.owner }
      const page = await store.listRuns({ kind, limit, ...owner, ...(after !== undefined && { after }) })
      return { items: page.items.map(toRun), ...(page.next !== undefined && { next: page.next }) }
    },

    async downloadWorkspace(caller, id) {
      const run = await see(store, caller, id)
      const driven = active.get(id)
      if (driven) return (await driven.serving).client.getWorkspace(withTimeout(ARCHIVE_TIMEOUT_MS))
      if (run.workspace.kind === 'path') {
        throw new SandboxError(
          'run_ended',
          `run ${id} has ended; its workspace is the folder ${run.workspace.path} itself`,
        )
      }
      const blob = await store.readBlob(id, 'workspace')
      if (!blob) throw new SandboxError('not_found', `run ${id} left no workspace`)
      return blob.chunks
    },

    startCommand: async (caller, id, command) =>
      commands.start(caller, await requireActive(caller, id), command),
    cancelCommand: async (caller, id, commandId) =>
      commands.cancel(await requireActive(caller, id), commandId),
    async file(caller, id, { operation, payload }) {
      const driven = await requireActive(caller, id)
      const { client } = await driven.serving
      driven.sign()
      return client.file(operation, payload ?? new Uint8Array(0), withTimeout(FILE_TIMEOUT_MS))
    },

    async readEvents(caller, id, { after, limit }) {
      await see(store, caller, id)
      return store.readEvents(id, after, limit)
    },
    async subscribe(caller, id, from) {
      await see(store, caller, id)
      return subscribeToRun(store, id, from)
    },

    readPolicy: async () => policy.read(),
    replacePolicy: (caller, patch) => policy.replace(caller, patch),
    mergePolicy: (caller, patch) => policy.merge(caller, patch),

    async ready() {
      const detail = await store.ping().then(
        () => undefined,
        (error: unknown) => String(error),
      )
      const checks = [{ name: 'store', ok: detail === undefined, detail: detail ?? store.engine }]
      return { ready: checks.every(({ ok }) => ok), checks }
    },
    metrics: () => renderMetrics(store, active),
  }
}
