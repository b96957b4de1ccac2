import { randomUUID } from 'node:crypto'
import type { StartCommand, StartedCommand } from '../../../contracts/api.ts'
import type { HostCommandInput } from '../../../contracts/exec.ts'
import { refuseCommand } from '../../governance/refuse-command.ts'
import { withTimeout } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { RunRow } from '../../store/store.ts'
import type { ActiveRun } from './active-run.ts'
import type { AuditTrail } from './audit-trail.ts'
import type { RunDeps } from './deps.ts'
import type { Caller } from './service.ts'

const START_TIMEOUT_MS = 30_000

/** Commands that a person runs in a run's sandbox, beside its agent. */
export function createRunCommands(deps: RunDeps, audit: AuditTrail) {
  const { store, clock } = deps

  /** The command's row and its audit intent are durable before the sandbox hears of it. */
  async function record(
    caller: Caller,
    run: RunRow,
    command: { id: string; request: StartCommand },
  ): Promise<number> {
    return store.transaction(async (tx) => {
      const current = await tx.readRun(run.id)
      await tx.insertCommand({ id: command.id, runId: run.id, request: command.request, state: 'running' })
      await audit.append(tx, run.id, [
        {
          kind: 'intent',
          runId: run.id,
          callId: command.id,
          actor: `person:${caller.owner}`,
          tool: 'exec',
          params: command.request,
          policyVersion: run.policyVersion,
          decision: 'allow',
          reasons: ['asked for by a person'],
          at: clock().toISOString(),
        },
      ])
      return current?.lastSequence ?? 0
    })
  }

  return {
    async start(caller: Caller, active: ActiveRun, request: StartCommand): Promise<StartedCommand> {
      const { client, sandbox } = await active.serving
      const { settings } = active.run
      const refusal = refuseCommand(request, settings, sandbox.isolation)
      if (refusal !== undefined) throw new SandboxError('policy_denied', refusal)
      const commandId = `cmd_${randomUUID().replaceAll('-', '')}`
      const afterSequence = await record(caller, active.run, { id: commandId, request })
      active.notifyCommand(commandId)
      const body: HostCommandInput = {
        ...request,
        maxOutputBytes: Math.min(request.maxOutputBytes, settings.max_output_bytes),
        readOnlyRoots: settings.allowed_repository_roots,
      }
      await client.startCommand(commandId, body, withTimeout(START_TIMEOUT_MS))
      return { commandId, afterSequence }
    },

    async cancel(active: ActiveRun, commandId: string): Promise<void> {
      const command = await store.transaction((tx) => tx.readCommand(active.run.id, commandId))
      if (!command) throw new SandboxError('not_found', `run ${active.run.id} has no command ${commandId}`)
      if (command.state === 'ended') return
      const { client } = await active.serving
      await client.cancelCommand(commandId, withTimeout(START_TIMEOUT_MS))
    },
  }
}
