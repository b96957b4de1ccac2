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

/** Paths that one line of the log names. */
const MAX_LOGGED = 20

/**
 * Keeps commands from leaving a program in the workspace that runs as the user of the service. The system call filter
 * refuses the bits; then nothing has to be looked for after a command. Three cases need a look after each one: there is no
 * filter, the workspace has folders that hand down their group, or it had such files before. The last can be rewritten
 * through a mapping, which keeps the bits.
 */
export class SetIdGuard {
  readonly #deps: SetIdGuardDeps
  readonly #closing = new AbortController()
  readonly #survey: Promise<SetIdSurvey>
  readonly #running = new Set<Promise<ExecResult>>()
  #problem: string | undefined
  #lastSweep: Promise<void> = Promise.resolve()
  /** The sweep that has not begun, for all commands that end until then. */
  #nextSweep: Promise<void> | undefined

  constructor(deps: SetIdGuardDeps) {
    this.#deps = deps
    this.#survey = surveySetId(deps.workspace.root, this.#closing.signal)
    this.#survey.catch((error: unknown) => this.#fail(error))
  }

  /** Runs a command with what it may do here. Resolves once nothing of it is left that must be cleared. */
  run(command: Command): Promise<ExecResult> {
    const running = this.#run(command)
    this.#running.add(running)
    const done = () => this.#running.delete(running)
    running.then(done, done)
    return running
  }

  /** Ends the first look where it is not over, and waits for what commands left. */
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

  /** A sweep that is under way may have passed a command's files already, so the command waits for the one after it. */
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

const REFUSAL = 'commands are refused, because set-user-ID files cannot be looked for in the workspace'
