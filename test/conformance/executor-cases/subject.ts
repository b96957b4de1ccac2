import { rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { z } from 'zod'
import { ExecRequest, type ExecResult } from '../../../contracts/exec.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'
import { directBackend } from '../../../runtime/executors/direct.ts'
import type { Executor } from '../../../runtime/executors/executor.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { localSite, type Site, temporaryFolder } from './site.ts'

/** What a backend promises beyond the contract's core. */
export interface Supports {
  /** Files, processes, environment and network of the host are out of reach. */
  readonly isolation: boolean
  /** Each command has a file system, processes and temporary files of its own, where paths can be guarded. */
  readonly ownRoot: boolean
  /** A command without network has a network of its own; where that is not so, it can make no socket for one. */
  readonly ownNetwork: boolean
  readonly enforcesEgress: boolean
  readonly syscallFilter: boolean
  /** A process that calls the kernel as another machine would is ended; gVisor ends the one thread. */
  readonly endsForeignCalls: boolean
  /** The number of processes is bounded on this machine. */
  readonly processLimit: boolean
  /** Output travels as bytes; otherwise what is no text arrives as replacement characters. */
  readonly rawOutput: boolean
}

/** The promises of a backend that puts each command into namespaces on this machine. */
export const LOCAL_ISOLATION = {
  isolation: true,
  ownRoot: true,
  ownNetwork: true,
  enforcesEgress: false,
  endsForeignCalls: true,
  rawOutput: true,
} as const

/** The Node that runs the tests, its packages and our fixture programs, as a command may use them. */
export const NODE_ROOT = dirname(dirname(process.execPath))
const REPOSITORY = resolve(import.meta.dirname, '../../..')
export const FIXTURES = join(REPOSITORY, 'test/executors/fixtures')
/** A ceiling that allows every folder: what is refused all the same may never be shown. */
export const ANY_FOLDER = [{ path: '/', real: '/' }]
export const TOOL_ROOTS = [NODE_ROOT, join(REPOSITORY, 'node_modules'), FIXTURES]

export type Outcome = ExecResult & { stdout: string; stderr: string }
export type Options = Omit<z.input<typeof ExecRequest>, 'command'> & Partial<Pick<ExecIo, 'stdin' | 'signal'>>

/** Runs a command to its end and keeps what it said. */
export async function execute(executor: Executor, command: string, options: Options = {}): Promise<Outcome> {
  const { stdin, signal, ...fields } = options
  const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
  const result = await executor.run(ExecRequest.parse({ command, timeoutMs: 120_000, ...fields }), {
    onChunk: (stream, bytes) => {
      kept[stream].push(bytes)
    },
    ...(stdin && { stdin }),
    ...(signal && { signal }),
  })
  const text = (pieces: Uint8Array[]) => Buffer.concat(pieces).toString()
  return { ...result, stdout: text(kept.stdout), stderr: text(kept.stderr) }
}

export interface ExecutorParts {
  /** A fresh executor over an empty workspace. */
  readonly create: (workspace: string) => Promise<Executor>
  readonly supports: Supports
  /**
   * Where the executor's commands run.
   * @default this machine
   */
  readonly site?: (workspace: string) => Site
}

type Opened = { workspace: string; executor: Executor; control: Executor; site: Site }

/** The executor under test over its workspace, and an unisolated one as the control of every attack. */
export class Subject {
  readonly supports: Supports
  /** Whether its commands run on this machine. */
  readonly isLocal: boolean
  readonly #create: (workspace: string) => Promise<Executor>
  readonly #openSite: (workspace: string) => Site
  #opened: Opened | undefined

  constructor({ create, supports, site = localSite }: ExecutorParts) {
    this.#create = create
    this.#openSite = site
    this.supports = supports
    this.isLocal = site === localSite
  }

  async open(): Promise<void> {
    const workspace = await temporaryFolder()
    const site = this.#openSite(workspace)
    const executor = await this.#create(workspace)
    const control = await directBackend.create({ workspace, toolRoots: TOOL_ROOTS, log: silentLog })
    await site.open()
    this.#opened = { workspace, executor, control, site }
  }

  async close(): Promise<void> {
    await this.#opened?.executor.close()
    await this.#opened?.control.close()
    await this.#opened?.site.close()
    if (this.#opened) await rm(this.#opened.workspace, { recursive: true, force: true })
  }

  /** Another executor of the same kind. */
  create(workspace: string): Promise<Executor> {
    return this.#create(workspace)
  }

  get workspace(): string {
    return this.#use.workspace
  }

  /** The workspace and the processes from beside the executor. */
  get site(): Site {
    return this.#use.site
  }

  get executor(): Executor {
    return this.#use.executor
  }

  run(command: string, options?: Options): Promise<Outcome> {
    return execute(this.#use.executor, command, options)
  }

  /** The same command without isolation: shows that an attack works where nothing stops it. */
  runUnisolated(command: string, options?: Options): Promise<Outcome> {
    return execute(this.#use.control, command, options)
  }

  get #use() {
    if (!this.#opened) throw new Error('the subject is not open')
    return this.#opened
  }
}
