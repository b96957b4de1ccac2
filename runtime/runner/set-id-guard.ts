import type { ExecResult } from '../../contracts/exec.ts'
import type { CommandRights, Executor } from '../executors/executor.ts'
import { messageOf } from '../kit/errors.ts'
import { failedExec } from '../kit/failed-exec.ts'
import type { Log } from '../kit/log.ts'
import type { WorkspaceEngine } from '../workspace/open-workspace.ts'
import { clearSetId, type SetIdSurvey, surveySetId } from '../workspace/set-id.ts'

export interface SetIdGuardDeps {
  readonly workspace: WorkspaceEngine
  readonly executor: Executor
  readonly log: Log
}

type Command = (rights: CommandRights) => Promise<ExecResult>

/** Maximum number of paths per log line. */
const MAX_LOGGED = 20

/**
 * Prevents commands from leaving a program in the workspace that runs as the service's user. Usually the system
 * call filter rejects the bits and nothing else is needed. The workspace is searched after each command in
 * three cases: there is no filter; folders have the set-group-ID bit; or set-ID files existed before, which a
 * command can rewrite through a memory mapping that keeps the bits.
 */
export class SetIdGuard {
  readonly #deps: SetIdGuardDeps
  readonly #closing = new AbortController()
  readonly #survey: Promise<SetIdSurvey>
  readonly #running = new Set<Promise<ExecResult>>()
  #problem: string | undefined
  #lastSweep: Promise<void> = Promise.resolve()
  /** The queued sweep that has not started, shared by all commands that end before it starts. */
  #nextSweep: Promise<void> | undefined

  constructor(deps: SetIdGuardDeps) {
    this.#deps = deps
    this.#survey = surveySetId(deps.workspace.root, this.#closing.signal)
    this.#survey.catch((error: unknown) => this.#fail(error))
  }

  /** Runs a command with the rights that are safe here. Resolves after the bits it left behind were cleared. */
  run(command: Command): Promise<ExecResult> {
    const running = this.#run(command)
    this.#running.add(running)
    const done = () => this.#running.delete(running)
    running.then(done, done)
    return running
  }

  /** Cancels the survey and waits for running commands and sweeps. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the workspace is closed'))
    await Promise.allSettled([this.#survey, ...this.#running])
  }

  async #run(command: Command): Promise<ExecResult> {
    const survey = await this.#survey.catch(() => undefined)
    if (survey === undefined || this.#problem !== undefined)
      return failedExec('spawn_failed', `${REFUSAL}: ${this.#problem}`)
    try {
      return await command({ permitsSetGroupId: survey.hasSetGroupFolders })
    } finally {
      if (this.#isNeeded(survey)) await this.#nextSweepOf(survey)
    }
  }

  /** A running sweep may already have passed the command's files, so the command waits for the next one. */
  #nextSweepOf(survey: SetIdSurvey): Promise<void> {
    this.#nextSweep ??= this.#lastSweep.then(() => {
      this.#nextSweep = undefined
      return this.#sweep(survey)
    })
    this.#lastSweep = this.#nextSweep
    return this.#nextSweep
  }

  #isNeeded({ hasSetGroupFolders, files }: SetIdSurvey): boolean {
    return !this.#deps.executor.hasSyscallFilter || hasSetGroupFolders || files.size > 0
  }

  async #sweep(survey: SetIdSurvey): Promise<void> {
    try {
      const cleared = await clearSetId(this.#deps.workspace.root, survey)
      if (cleared.length === 0) return
      const paths = cleared.slice(0, MAX_LOGGED)
      this.#deps.log.warn('set-user-ID or set-group-ID bits were cleared', { count: cleared.length, paths })
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#problem ??= messageOf(error)
    if (!this.#closing.signal.aborted) this.#deps.log.error(REFUSAL, { reason: this.#problem })
  }
}

const REFUSAL = 'commands are refused, because the workspace cannot be searched for set-user-ID files'
