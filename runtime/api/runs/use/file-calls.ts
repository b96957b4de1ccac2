import { createHash, randomUUID } from 'node:crypto'
import type { FileOperation } from '../../../../contracts/files.ts'
import type { FileAnswer } from '../../../../contracts/toolbox.ts'
import type { AuditDraft } from '../../../audit/chain.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import type { RunDeps } from '../deps.ts'
import { recordContribution } from '../gates/contributors.ts'
import { refuseWrites } from '../restrictions/refusals.ts'
import { requireRunning } from '../run-view.ts'
import type { Caller, FileRequest } from '../service.ts'
import type { SandboxUse } from './serving-run.ts'

const FILE_TIMEOUT_MS = 60_000
/** Everything else changes the workspace. */
const READS: ReadonlySet<FileOperation['op']> = new Set(['read', 'stat', 'list', 'grep', 'find'])

type Write = {
  readonly callId: string
  readonly caller: Caller
  readonly tool: string
  readonly startedAt: Date
}

/**
 * File operations that people do in a sandbox. A write has an audit intent before the sandbox hears of it, and a row
 * among the calls until its outcome is recorded, so that the end of the run closes it if this process does not.
 */
export function createFileCalls({ store, clock, log, redactText, restrictions }: RunDeps, audit: AuditTrail) {
  const draft = (run: RunRow, { callId, caller, tool }: Write): Omit<AuditDraft, 'kind'> => ({
    runId: run.id,
    callId,
    actor: actorOf(caller),
    tool,
    policyVersion: run.policyVersion,
    at: clock().toISOString(),
  })

  const begin = (run: RunRow, write: Write, { operation, payload }: FileRequest) =>
    store.transaction(async (tx) => {
      requireRunning(run.id, await tx.readRun(run.id))
      const { callId, caller, tool, startedAt } = write
      const openedAt = startedAt.toISOString()
      const actor = actorOf(caller)
      await tx.insertCall({ runId: run.id, callId, tool, actor, state: 'released', openedAt })
      await recordContribution(tx, caller, { runId: run.id, how: 'file', at: openedAt })
      const sha256 = createHash('sha256')
        .update(payload ?? '')
        .digest('hex')
      await audit.append(tx, run.id, [
        {
          ...draft(run, write),
          kind: 'intent',
          params: { operation, sha256 },
          decision: 'allow',
          reasons: ['asked for by a person', `path ${redactText(pathOf(operation))}`],
        },
      ])
    })

  /** If the run has ended in the meantime, the call is closed and the audit chain is sealed. */
  const end = (run: RunRow, write: Write, facts: Pick<AuditDraft, 'outcome' | 'bytes'>) =>
    store.transaction(async (tx) => {
      await tx.readRun(run.id)
      const call = await tx.readCall(run.id, write.callId)
      if (call?.state !== 'released') return
      await tx.changeCall(run.id, write.callId, { state: 'ended' })
      const durationMs = clock().getTime() - write.startedAt.getTime()
      await audit.append(tx, run.id, [{ ...draft(run, write), kind: 'file.written', durationMs, ...facts }])
    })

  return async (caller: Caller, { client, run }: SandboxUse, request: FileRequest): Promise<FileAnswer> => {
    const { operation, payload = new Uint8Array(0) } = request
    const operate = () => client.file(operation, payload, withTimeout(FILE_TIMEOUT_MS))
    if (READS.has(operation.op)) return operate()
    refuseWrites(restrictions.of(run))
    const write: Write = {
      callId: `file_${randomUUID().replaceAll('-', '')}`,
      caller,
      tool: `file.${operation.op}`,
      startedAt: clock(),
    }
    await begin(run, write, request)
    // What the sandbox did stands, whether or not its outcome can be recorded now.
    const note = (facts: Parameters<typeof end>[2]) =>
      bestEffort(log, `record the outcome of ${write.callId} of ${run.id}`, () => end(run, write, facts))
    try {
      const answer = await operate()
      await note(
        answer.result.ok ? { outcome: 'ok', bytes: payload.length } : { outcome: answer.result.code },
      )
      return answer
    } catch (error) {
      await note({ outcome: error instanceof SandboxError ? `unknown (${error.code})` : 'unknown' })
      throw error
    }
  }
}

const actorOf = ({ owner }: Caller): string => `person:${owner}`

const pathOf = (operation: FileOperation): string => {
  if (operation.op === 'rename') return `${operation.from} to ${operation.to}`
  return 'path' in operation ? String(operation.path) : ''
}
