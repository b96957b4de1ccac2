import { randomUUID } from 'node:crypto'
import type { StartCommand, StartedCommand } from '../../../../contracts/api.ts'
import { ERROR_STATUS } from '../../../../contracts/errors.ts'
import { refuseCommand } from '../../../governance/refuse-command.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import { commandEnd, hostCommandOf } from '../command-records.ts'
import type { RunDeps } from '../deps.ts'
import { recordContribution } from '../gates/contributors.ts'
import { refuseFrozen } from '../restrictions/refusals.ts'
import { requireRunning } from '../run-view.ts'
import type { Caller } from '../service.ts'
import type { SandboxUse } from './serving-run.ts'

const START_TIMEOUT_MS = 30_000

/** What the sandbox answered with: after it, the command did not start. */
const isRefusal = (error: unknown): error is SandboxError =>
  error instanceof SandboxError && ERROR_STATUS[error.code] < 500

function unconfirmed(
  run: RunRow,
  { commandId, afterSequence }: StartedCommand,
  cause: unknown,
): SandboxError {
  const message =
    `The sandbox did not confirm the command ${commandId}; it may run. Follow the events of ${run.id} after ` +
    `${afterSequence}, or cancel the command.`
  return new SandboxError('outcome_unknown', message, { cause })
}

/** Commands that a person runs in the sandbox of a run. */
export function createRunCommands(deps: RunDeps, audit: AuditTrail) {
  const { store, clock, log } = deps

  /** The command's row and its audit intent are durable before the sandbox hears of it. */
  async function record(
    caller: Caller,
    run: RunRow,
    command: { id: string; request: StartCommand },
  ): Promise<StartedCommand> {
    return store.transaction(async (tx) => {
      const current = requireRunning(run.id, await tx.readRun(run.id))
      const actor = `person:${caller.owner}`
      const { id, request } = command
      await tx.insertCommand({ id, runId: run.id, request, actor, state: 'running' })
      await recordContribution(tx, caller, { runId: run.id, how: 'command', at: clock().toISOString() })
      await audit.append(tx, run.id, [
        {
          kind: 'intent',
          runId: run.id,
          callId: id,
          actor,
          tool: 'exec',
          params: request,
          policyVersion: run.policyVersion,
          decision: 'allow',
          reasons: ['asked for by a person'],
          at: clock().toISOString(),
        },
      ])
      tx.announce(run.id)
      const started = { commandId: command.id, afterSequence: current.lastSequence }
      await caller.keep?.(tx, started)
      return started
    })
  }

  /** Ends a command that the sandbox rejected, unless the run has ended it. */
  async function endRefused(run: RunRow, commandId: string, code: string): Promise<void> {
    await store.transaction(async (tx) => {
      await tx.readRun(run.id)
      const command = await tx.readCommand(run.id, commandId)
      if (command?.state !== 'running') return
      await tx.endCommand(commandId, { refused: code })
      await audit.append(tx, run.id, [commandEnd(run, command, { outcome: code, at: clock().toISOString() })])
      tx.announce(run.id)
    })
  }

  return {
    async start(caller: Caller, use: SandboxUse, request: StartCommand): Promise<StartedCommand> {
      const { client, isolation, run } = use
      const refusal = refuseCommand(request, run.settings, isolation)
      if (refusal !== undefined) throw new SandboxError('policy_denied', refusal)
      refuseFrozen(deps.restrictions.of(run))
      const commandId = `cmd_${randomUUID().replaceAll('-', '')}`
      const started = await record(caller, run, { id: commandId, request })
      use.notifyCommand(commandId)
      const body = hostCommandOf(request, run.settings)
      try {
        await client.startCommand(commandId, body, withTimeout(START_TIMEOUT_MS))
      } catch (error) {
        if (!isRefusal(error)) throw unconfirmed(run, started, error)
        await bestEffort(log, `end the refused command ${commandId}`, () =>
          endRefused(run, commandId, error.code),
        )
        throw error
      }
      return started
    },

    async cancel({ run, client }: SandboxUse, commandId: string): Promise<void> {
      const command = await store.transaction((tx) => tx.readCommand(run.id, commandId))
      if (!command) throw new SandboxError('not_found', `run ${run.id} has no command ${commandId}`)
      if (command.state === 'ended') return
      await client.cancelCommand(commandId, withTimeout(START_TIMEOUT_MS))
    },
  }
}
