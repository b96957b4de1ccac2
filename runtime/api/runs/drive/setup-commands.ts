import { randomUUID } from 'node:crypto'
import { StartCommand } from '../../../../contracts/api.ts'
import { refuseCommand } from '../../../governance/refuse-command.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { delay, unlessAborted, withTimeout } from '../../../kit/deadline.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import { present } from '../../../kit/present.ts'
import type { RunRow } from '../../../store/store.ts'
import { setupEndsAt } from '../../egress/run-phase.ts'
import type { AuditTrail } from '../audit-trail.ts'
import { hostCommandOf } from '../command-records.ts'
import type { RunDeps } from '../deps.ts'
import { awaitsSetup } from '../launch/setup-phase.ts'
import { beginRun } from './begin-run.ts'
import { type SavedParts, saveFiles } from './checkpoint.ts'
import type { Serving } from './departure.ts'
import type { RestrictedRun } from './restricted-run.ts'
import { faultOf, isRejection, type SetupCommand, SetupRecords } from './setup-records.ts'

const START_TIMEOUT_MS = 30_000
const SAVE_TIMEOUT_MS = 300_000
const LOOK_AGAIN_MS = 200
/** The sandbox stops a command at its time limit and reports its end, which this process waits for. */
const GRACE_MS = 15_000
/** Of the output that the message of a failure repeats. */
const SHOWN_CHARACTERS = 1_000

export type SetupParts = {
  readonly deps: RunDeps
  readonly run: RunRow
  readonly audit: AuditTrail
  /** Ends with the driver's work on the run. */
  readonly signal: AbortSignal
  readonly log: Log
  readonly restricted: Pick<RestrictedRun, 'isFrozen' | 'serve'>
}

/**
 * Runs the setup commands of a run in its new sandbox, one after the other, before the first turn. A command that fails, or
 * is refused, fails the run. They are judged by the policy of the agent's commands, in the phase `setup`.
 */
export class SetupCommands {
  readonly #parts: SetupParts
  readonly #records: SetupRecords
  readonly #ends = new Map<string, PromiseWithResolvers<void>>()
  #serving: Serving | undefined

  constructor(parts: SetupParts) {
    this.#parts = parts
    this.#records = new SetupRecords(parts.deps, parts.run, parts.audit)
  }

  get isNeeded(): boolean {
    return awaitsSetup(this.#parts.run)
  }

  /** The sandbox, once the setup has begun in it. */
  get serving(): Serving | undefined {
    return this.#serving
  }

  /** The ends of these commands are stored. */
  ended(commandIds: readonly string[]): void {
    for (const id of commandIds) this.#ends.get(id)?.resolve()
  }

  /**
   * Runs the commands, and then records the start of the run. The loop of turns sends the first turn. Throws `setup_failed` or
   * `policy_denied` if a command fails or is refused.
   */
  async begin(serving: Serving): Promise<void> {
    const { deps, run, restricted } = this.#parts
    this.#serving = serving
    restricted.serve(serving, true)
    await this.#run(serving)
    const { selected: _reported, ...begun } = serving
    await beginRun(deps, run, { ...begun, sendTurn: () => undefined })
  }

  async #run(serving: Serving): Promise<void> {
    const { deps, run, log } = this.#parts
    const startedAt = performance.now()
    const durationMs = () => Math.round(performance.now() - startedAt)
    const endsAt = await this.#endsAt()
    // In a cluster, the state of the proxies changes with the time.
    const over = setTimeout(
      () => void bestEffort(log, 'end the phase setup', () => deps.networks?.changed(run.id)),
      endsAt - deps.clock().getTime(),
    )
    try {
      await this.#records.selected(serving)
      await this.#runAll(serving, endsAt)
      const saved = await this.#save(serving)
      await this.#records.ended({ succeeded: true, durationMs: durationMs(), ...present({ saved }) })
    } catch (error) {
      // A sandbox that is lost takes its setup with it: the next one begins again.
      if (error instanceof SandboxError && FAILURES.has(error.code))
        await bestEffort(log, 'end the setup', async () => {
          await this.#records.ended({ succeeded: false, durationMs: durationMs() })
          await deps.networks?.changed(run.id)
        })
      throw error
    } finally {
      clearTimeout(over)
    }
    // In force before the first turn.
    await deps.networks?.changed(run.id)
  }

  /** The phase began with the network of the sandbox. */
  async #endsAt(): Promise<number> {
    const { deps, run } = this.#parts
    const { setup } = (await deps.store.readRun(run.id)) ?? {}
    return setupEndsAt(setup ?? { startedAt: deps.clock().toISOString() })
  }

  async #runAll(serving: Serving, endsAt: number): Promise<void> {
    const texts = this.#parts.run.settings.setup_commands ?? []
    for (const [index, text] of texts.entries()) {
      const id = `cmd_${randomUUID().replaceAll('-', '')}`
      const command = { id, text, number: index + 1, of: texts.length }
      await this.#judge(command, serving)
      await this.#runOne(command, serving, endsAt)
    }
  }

  /** No person can be asked before the run has begun, so a command that needs an approval is refused. */
  async #judge(command: SetupCommand, { sandbox, selected }: Serving): Promise<void> {
    const { run, deps } = this.#parts
    const { settings, touched } = run
    const isolation = selected ?? sandbox.isolation
    const judged = deps.governance
      .forRun(settings, touched)
      .decide({ tool: 'run_command', arguments: { command: command.text } }, isolation, 'setup')
    const why = [...judged.matched, ...judged.reasons].join('; ')
    const reason =
      refuseCommand({ network: settings.network_enabled }, settings, isolation) ??
      (judged.verdict === 'deny' ? `the policy refuses it: ${why}` : undefined) ??
      (judged.verdict === 'ask'
        ? `it needs the approval of a person, and nobody can be asked before the run has begun: ${why}`
        : undefined)
    if (reason === undefined) return
    await this.#records.refused(command, reason)
    throw new SandboxError(
      'policy_denied',
      `${nameOf(command)} was not run, because ${reason}. ${NEXT} Or let the agent run it.`,
    )
  }

  async #runOne(command: SetupCommand, { client }: Serving, endsAt: number): Promise<void> {
    const { run, deps, signal, restricted } = this.#parts
    const { settings } = run
    while (restricted.isFrozen) await delay(LOOK_AGAIN_MS, signal)
    const leftMs = Math.floor(endsAt - deps.clock().getTime())
    if (leftMs <= 0)
      throw failed(`${nameOf(command)} did not start, because the 30 minutes of the setup are over.`)
    const request = StartCommand.parse({
      command: command.text,
      network: settings.network_enabled,
      timeoutMs: leftMs,
      maxOutputBytes: settings.max_output_bytes,
    })
    await this.#records.intent(command, request)
    const end = Promise.withResolvers<void>()
    this.#ends.set(command.id, end)
    await this.#start(command, client, request)
    const late = AbortSignal.timeout(leftMs + GRACE_MS)
    await unlessAborted(end.promise, AbortSignal.any([signal, late])).catch((error: unknown) => {
      if (!late.aborted || signal.aborted) throw error
    })
    const fault = faultOf(await this.#records.resultOf(command))
    if (fault === undefined) return
    const tail = await this.#records.tailOf(command, SHOWN_CHARACTERS)
    const output = tail === '' ? 'It wrote nothing.' : `The end of its output:\n${tail}`
    throw failed(`${nameOf(command)} ${fault}, so the run did not begin. ${NEXT} ${output}`)
  }

  async #start(command: SetupCommand, client: Serving['client'], request: StartCommand): Promise<void> {
    const { run, log, signal } = this.#parts
    try {
      const body = hostCommandOf(request, run.settings)
      await client.startCommand(command.id, body, withTimeout(START_TIMEOUT_MS, signal))
    } catch (error) {
      if (!isRejection(error) || signal.aborted) throw error
      await bestEffort(log, 'end a rejected setup command', () => this.#records.rejected(command, error.code))
      throw failed(`${nameOf(command)} was rejected by the sandbox: ${error.message}`)
    }
  }

  /** Without this checkpoint, a sandbox that follows a loss begins without what the setup installed. */
  async #save({ client }: Serving): Promise<SavedParts | undefined> {
    const { deps, run, signal: stop, log } = this.#parts
    if (run.workspace.kind === 'path') return undefined
    const signal = withTimeout(SAVE_TIMEOUT_MS, stop)
    try {
      return await saveFiles(deps, run, { client, signal })
    } catch (error) {
      stop.throwIfAborted()
      log.warn('the files of a setup could not be saved', { error })
      return undefined
    }
  }
}

const FAILURES: ReadonlySet<string> = new Set(['setup_failed', 'policy_denied'])

const NEXT = 'Change setup_commands in the settings, or start the run without them (--no-setup).'

const failed = (message: string) => new SandboxError('setup_failed', message)

/** Of a long command, its beginning. */
const nameOf = ({ text, number, of }: SetupCommand): string => {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return `The setup command ${number} of ${of} (${line.length > 200 ? `${line.slice(0, 200)}…` : line})`
}
