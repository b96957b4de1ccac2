import type { StartCommand } from '../../../../contracts/api.ts'
import { ERROR_STATUS } from '../../../../contracts/errors.ts'
import { ExecResult } from '../../../../contracts/exec.ts'
import { SandboxError } from '../../../kit/errors.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import type { AuditTrail } from '../audit-trail.ts'
import { commandEnd } from '../command-records.ts'
import type { RunDeps } from '../deps.ts'
import { whileHeld } from '../held-run.ts'
import type { LaunchedSandbox } from '../launch/launched-sandbox.ts'
import { recordSelected } from './begin-run.ts'
import { promote, type SavedParts } from './checkpoint.ts'

const ACTOR = 'agentweaver'

export type SetupCommand = {
  readonly id: string
  readonly text: string
  /** From 1. */
  readonly number: number
  readonly of: number
}

export type SetupEnd = {
  readonly succeeded: boolean
  readonly durationMs: number
  /** The files as the setup left them, for the next sandbox. */
  readonly saved?: SavedParts
}

/** What the setup of a run writes to the store. */
export class SetupRecords {
  readonly #deps: RunDeps
  readonly #run: RunRow
  readonly #audit: AuditTrail

  constructor(deps: RunDeps, run: RunRow, audit: AuditTrail) {
    this.#deps = deps
    this.#run = run
    this.#audit = audit
  }

  /** How the sandbox isolates commands is reported before the first one. */
  async selected({ selected, sandbox }: LaunchedSandbox): Promise<void> {
    if (!selected) return
    let attempts = 0
    await whileHeld(this.#deps.store, this.#run, async (tx, current) => {
      attempts += 1
      if (attempts > 1 && current.sandbox?.isolation.reason === selected.reason) return
      await recordSelected(tx, current, { selected, sandbox })
    })
  }

  /** The command and its audit intent are durable before the sandbox gets the command. */
  async intent(command: SetupCommand, request: StartCommand): Promise<void> {
    const { id, text, number, of } = command
    const { store, clock, redactText } = this.#deps
    const data = { commandId: id, command: redactText(text), number, of }
    await whileHeld(store, this.#run, async (tx, { id: runId }) => {
      // An earlier attempt was committed, and its answer was lost.
      if (await tx.readCommand(runId, id)) return
      await tx.insertCommand({ id, runId, request, actor: ACTOR, state: 'running' })
      await this.#audit.append(tx, runId, [
        { ...this.#auditOf(command), decision: 'allow', at: clock().toISOString() },
      ])
      await tx.appendEvents(runId, [{ event: { type: 'setup.command', data } }])
    })
  }

  /** A command that the policy refuses does not start. */
  async refused(command: SetupCommand, reason: string): Promise<void> {
    const { store, clock } = this.#deps
    const at = clock().toISOString()
    const about = this.#auditOf(command)
    const denied = { ...about, decision: 'deny', reasons: [...about.reasons, reason], at }
    const { params: _params, reasons: _reasons, ...of } = about
    const outcome = { ...of, kind: 'outcome' as const, outcome: 'not released (policyDenied)', at }
    const row = { id: command.id, runId: this.#run.id, request: about.params, actor: ACTOR } as const
    await whileHeld(store, this.#run, async (tx, { id }) => {
      if (await tx.readCommand(id, command.id)) return
      await tx.insertCommand({ ...row, state: 'ended', result: { refused: 'policy_denied' } })
      await this.#audit.append(tx, id, [denied, outcome])
    })
  }

  /** Ends a command that the sandbox rejected. */
  async rejected({ id }: SetupCommand, code: string): Promise<void> {
    const { store, clock } = this.#deps
    await whileHeld(store, this.#run, async (tx, current) => {
      const command = await tx.readCommand(current.id, id)
      if (command?.state !== 'running') return
      await tx.endCommand(id, { refused: code })
      const at = clock().toISOString()
      await this.#audit.append(tx, current.id, [commandEnd(current, command, { outcome: code, at })])
    })
  }

  /** The setup is over, in one commit with the checkpoint of its files. */
  async ended({ saved, ...data }: SetupEnd): Promise<void> {
    const { store, clock } = this.#deps
    await whileHeld(store, this.#run, async (tx, current) => {
      const { setup } = current
      if (!setup || setup.endedAt !== undefined) return
      const at = clock().toISOString()
      const checkpoint = saved && (await promote(tx, current, { saved, at }))
      await tx.changeRun(current.id, { setup: { ...setup, endedAt: at }, ...checkpoint })
      await tx.appendEvents(current.id, [{ event: { type: 'setup.ended', data } }])
    })
  }

  async resultOf({ id }: SetupCommand): Promise<ExecResult | undefined> {
    const command = await this.#deps.store.transaction((tx) => tx.readCommand(this.#run.id, id))
    const result = ExecResult.safeParse(command?.result)
    return result.success ? result.data : undefined
  }

  /** The end of the output of a command, as the event stream has it. */
  async tailOf({ id }: SetupCommand, characters: number): Promise<string> {
    const { store } = this.#deps
    const run = await store.readRun(this.#run.id)
    const after = Math.max(0, (run?.lastSequence ?? 0) - TAIL_EVENTS)
    const events = await store.readEvents(this.#run.id, after, TAIL_EVENTS)
    const output = events.flatMap(({ event }) =>
      event.type === 'command.output' && event.data.commandId === id ? [event.data.chunk] : [],
    )
    return output.join('').trimEnd().slice(-characters).trimStart()
  }

  #auditOf({ id: callId, text: command, number, of }: SetupCommand) {
    const { id: runId, policyVersion } = this.#run
    return {
      ...{ kind: 'intent' as const, runId, callId, actor: ACTOR, tool: 'exec', policyVersion },
      params: { command },
      reasons: [`setup command ${number} of ${of} of the settings`],
    }
  }
}

const TAIL_EVENTS = 200

/** An error response of the sandbox: the command did not start. */
export const isRejection = (error: unknown): error is SandboxError =>
  error instanceof SandboxError && ERROR_STATUS[error.code] < 500

/** Why a command that ended failed. Undefined if it succeeded. */
export function faultOf(result: ExecResult | undefined): string | undefined {
  if (!result) return 'did not end'
  const { reason, exitCode, signal, message } = result
  if (reason === 'exit') return exitCode === 0 ? undefined : `ended with exit code ${exitCode}`
  if (reason === 'timeout') return 'was stopped, because the setup of a run may take 30 minutes'
  if (reason === 'signal') return `was ended by ${signal}`
  return `did not run to its end (${[reason, ...Object.values(present({ message }))].join(': ')})`
}
