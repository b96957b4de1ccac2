import { FILE_LIMITS } from '../../../contracts/limits.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { RunChange, RunRow } from '../../store/store.ts'
import type { ActiveRuns } from './active-runs.ts'
import { settingsOfArchive } from './archive-settings.ts'
import type { RunDeps } from './deps.ts'
import { type FinishParts, finishRun } from './finish.ts'
import { parseSettingsText } from './repository-settings.ts'
import type { SandboxPolicy } from './sandbox-policy.ts'

export type UploadParts = FinishParts & { readonly policy: SandboxPolicy; readonly active: ActiveRuns }

/** Runs that wait for their workspace: each starts when it is there, or fails when it does not come. */
export function createUploads(deps: RunDeps, parts: UploadParts) {
  const timers = new Map<string, NodeJS.Timeout>()
  const uploading = new Set<string>()

  async function giveUp(runId: string): Promise<void> {
    timers.delete(runId)
    const message = `the workspace was not uploaded within ${deps.limits.uploadTimeoutMs / 60_000} minutes`
    parts.active.giveUp(runId)
    // It may have come to another process.
    const onlyIf = ({ state }: RunRow) => state === 'awaiting_upload'
    const ending = { state: 'failed', code: 'workspace_invalid', message } as const
    await finishRun(deps, parts, { runId, ending, onlyIf })
  }

  /** Settings that the archive brings tighten those that the run has. */
  async function applySettings(run: RunRow): Promise<void> {
    const blob = await deps.store.readBlob(run.id, 'workspace')
    const patch = blob && parseSettingsText(await settingsOfArchive(blob.chunks))
    if (!patch) return
    const settings = parts.policy.tightened(run.settings, patch)
    const policyVersion = deps.governance.version(settings)
    await changeWaiting(run.id, { settings, policyVersion })
  }

  /** A run that was cancelled while its upload came stays as it ended. */
  async function changeWaiting(runId: string, change: RunChange): Promise<void> {
    await deps.store.transaction(async (tx) => {
      const current = await tx.readRun(runId)
      if (current?.state !== 'awaiting_upload')
        throw new SandboxError('run_ended', `run ${runId} has ended (${current?.state ?? 'unknown'})`)
      await tx.changeRun(runId, change)
    })
  }

  return {
    /** Starts the wait for a run's upload. */
    expect(run: RunRow): void {
      const timer = setTimeout(() => {
        giveUp(run.id).catch((error) =>
          deps.log.error('a run without upload could not be ended', { error, runId: run.id }),
        )
      }, deps.limits.uploadTimeoutMs)
      timers.set(run.id, timer.unref())
    },

    async receive(run: RunRow, archive: AsyncIterable<Uint8Array>): Promise<void> {
      if (run.state !== 'awaiting_upload' || uploading.has(run.id)) {
        throw new SandboxError('conflict', `run ${run.id} does not wait for an upload, it is ${run.state}`)
      }
      uploading.add(run.id)
      try {
        await deps.store.writeBlob(
          { runId: run.id, name: 'workspace', maxBytes: FILE_LIMITS.maxArchiveBytes },
          archive,
        )
        await applySettings(run)
        clearTimeout(timers.get(run.id))
        timers.delete(run.id)
        await changeWaiting(run.id, { state: 'queued', holder: deps.holder.id })
      } finally {
        uploading.delete(run.id)
      }
    },

    /** Ends runs whose upload never came and whose process is gone, too. */
    async endOverdue(): Promise<void> {
      const since = deps.clock().getTime() - deps.limits.uploadTimeoutMs
      const createdBefore = new Date(since).toISOString()
      const { items } = await deps.store.listRuns({ states: ['awaiting_upload'], createdBefore, limit: 100 })
      for (const { id } of items) if (!uploading.has(id)) await giveUp(id)
    },

    /** Stops the wait of a run that was cancelled. */
    forget(runId: string): boolean {
      clearTimeout(timers.get(runId))
      return timers.delete(runId)
    },
    close: () => {
      for (const timer of timers.values()) clearTimeout(timer)
    },
  }
}

export type Uploads = ReturnType<typeof createUploads>
