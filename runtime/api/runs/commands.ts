import { randomUUID } from 'node:crypto'
import type { StartCommand, StartedCommand } from '../../../contracts/api.ts'
import { ERROR_STATUS } from '../../../contracts/errors.ts'
import type { HostCommandInput } from '../../../contracts/exec.ts'
import type { SandboxSettings } from '../../../contracts/policy.ts'
import { refuseCommand } from '../../governance/refuse-command.ts'
import { withTimeout } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { RunRow } from '../../store/store.ts'
import type { AuditTrail } from './audit-trail.ts'
import type { RunDeps } from './deps.ts'
import type { Caller } from './service.ts'
import type { SandboxUse } from './serving-run.ts'

const START_TIMEOUT_MS = 30_000

/** A command as the sandbox is told of it: the same row gives the same body, which the sandbox takes once. */
export function hostCommandOf(request: unknown, settings: SandboxSettings): HostCommandInput {
  const command = request as StartCommand
  return {
    ...command,
    maxOutputBytes: Math.min(command.maxOutputBytes, settings.max_output_bytes),
    readOnlyRoots: settings.allowed_repository_roots,
  }
}

/** What the sandbox answered with: after it, the command did not start. */
const isRefusal = (error: unknown): boolean => error instanceof SandboxError && ERROR_STATUS[error.code] < 500

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

/** Commands that a person runs in a run's sandbox, beside its agent. */
export function createRunCommands(deps: RunDeps, audit: AuditTrail) {
  const { store, clock } = deps

  /** The command's row and its audit intent are durable before the sandbox hears of it. */
  async function record(
    caller: Caller,
    run: RunRow,
    command: { id: string; request: StartCommand },
  ): Promise<StartedCommand> {
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
      tx.announce(run.id)
      const started = { commandId: command.id, afterSequence: current?.lastSequence ?? 0 }
      await caller.keep?.(tx, started)
      return started
    })
  }

  return {
    async start(caller: Caller, use: SandboxUse, request: StartCommand): Promise<StartedCommand> {
      const { client, isolation, run } = use
      const refusal = refuseCommand(request, run.settings, isolation)
      if (refusal !== undefined) throw new SandboxError('policy_denied', refusal)
      const commandId = `cmd_${randomUUID().replaceAll('-', '')}`
      const started = await record(caller, run, { id: commandId, request })
      use.notifyCommand(commandId)
      const body = hostCommandOf(request, run.settings)
      try {
        await client.startCommand(commandId, body, withTimeout(START_TIMEOUT_MS))
      } catch (error) {
        throw isRefusal(error) ? error : unconfirmed(run, started, error)
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
