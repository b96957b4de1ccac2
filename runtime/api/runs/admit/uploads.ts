import type { RunEvent } from '../../../../contracts/events.ts'
import { FILE_LIMITS } from '../../../../contracts/limits.ts'
import { SETTINGS_FILE } from '../../../../contracts/policy.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { RunDeps } from '../deps.ts'
import { type FinishParts, finishRun } from '../drive/finish.ts'
import { recordContribution } from '../gates/contributors.ts'
import { transition } from '../machine/transition.ts'
import { toRun } from '../run-view.ts'
import type { Caller } from '../service.ts'
import { settingsOfArchive } from './archive-settings.ts'
import { ignoredNotices } from './settings-in-force.ts'
import { writeWithin } from './storage-limit.ts'

/** Runs that wait for their workspace: each starts when it is there, or fails when it does not come. */
export function createUploads(deps: RunDeps, parts: FinishParts) {
  const timers = new Map<string, NodeJS.Timeout>()
  const uploading = new Set<string>()

  async function giveUp(runId: string): Promise<void> {
    timers.delete(runId)
    const message = `the workspace was not uploaded within ${deps.limits.uploadTimeoutMs / 60_000} minutes`
    // It may have come to another process.
    const onlyIf = ({ state }: RunRow) => state === 'waiting_upload'
    const ending = { state: 'failed', code: 'workspace_invalid', message } as const
    await finishRun(deps, parts, { runId, ending, onlyIf })
  }

  /** The run has its settings from its request. An agent may have written the archive's file: it is only reported. */
  async function noticesOf({ id, workspace }: RunRow): Promise<RunEvent[]> {
    const blob = await deps.store.readBlob(id, 'workspace')
    const found = blob && (await settingsOfArchive(blob.chunks))
    const inForce = workspace.kind === 'upload' ? workspace.settings : undefined
    return ignoredNotices(SETTINGS_FILE.path, inForce, found?.text)
  }

  /** A run that was cancelled while its upload came stays as it ended. */
  async function queue(caller: Caller, runId: string, notices: readonly RunEvent[]): Promise<void> {
    await deps.store.transaction(async (tx) => {
      const current = await tx.readRun(runId)
      if (current?.state !== 'waiting_upload')
        throw new SandboxError('run_ended', `run ${runId} has ended (${current?.state ?? 'unknown'})`)
      const state = await transition(tx, current, { event: { kind: 'uploaded' } })
      const events = await tx.appendEvents(
        runId,
        notices.map((event) => ({ event })),
      )
      await recordContribution(tx, caller, { runId, how: 'upload', at: deps.clock().toISOString() })
      const lastSequence = current.lastSequence + events.length
      await caller.keep?.(tx, toRun({ ...current, state, lastSequence }))
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

    async receive(caller: Caller, run: RunRow, archive: AsyncIterable<Uint8Array>): Promise<void> {
      if (run.state !== 'waiting_upload' || uploading.has(run.id)) {
        throw new SandboxError('conflict', `run ${run.id} does not wait for an upload, it is ${run.state}`)
      }
      uploading.add(run.id)
      try {
        const limit = { owner: run.owner, maxBytes: FILE_LIMITS.maxArchiveBytes, what: 'the workspace' }
        await writeWithin(deps, limit, (maxBytes) =>
          deps.store.writeBlob({ runId: run.id, name: 'workspace', maxBytes }, archive),
        )
        const notices = await noticesOf(run)
        clearTimeout(timers.get(run.id))
        timers.delete(run.id)
        await queue(caller, run.id, notices)
      } finally {
        uploading.delete(run.id)
      }
    },

    /** Ends runs whose upload never came and whose process is gone, too. */
    async endOverdue(): Promise<void> {
      const since = deps.clock().getTime() - deps.limits.uploadTimeoutMs
      const createdBefore = new Date(since).toISOString()
      const { items } = await deps.store.listRuns({ states: ['waiting_upload'], createdBefore, limit: 100 })
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
