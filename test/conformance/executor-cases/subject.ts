import { rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { z } from 'zod'
import { ExecRequest, type ExecResult } from '../../../contracts/exec.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'
import { directBackend } from '../../../runtime/executors/direct.ts'
import type { Executor } from '../../../runtime/executors/executor.ts'
import { silentLog } from '../../../runtime/kit/log.ts'
import { localSite, type Site, temporaryFolder } from './site.ts'

/** Guarantees of a backend beyond the core contract. */
export interface Supports {
  /** Files, processes, environment and network of the host cannot be reached. */
  readonly isolation: boolean
  /** Each command has a private file system, processes and temporary files, and paths can be guarded. */
  readonly ownRoot: boolean
  /** A command without network access has a private network. Otherwise it cannot create network sockets. */
  readonly ownNetwork: boolean
  readonly enforcesEgress: boolean
  readonly syscallFilter: boolean
  /** A system call of another architecture kills the process; gVisor kills only the thread. */
  readonly endsForeignCalls: boolean
  /** The number of processes is limited on this machine. */
  readonly processLimit: boolean
  /** Output is transferred as bytes. Otherwise invalid UTF-8 arrives as replacement characters. */
  readonly rawOutput: boolean
}

/** Guarantees of backends that run each command in namespaces on this machine. */
export const LOCAL_ISOLATION = {
  isolation: true,
  ownRoot: true,
  ownNetwork: true,
  enforcesEgress: true,
  endsForeignCalls: true,
  rawOutput: true,
} as const

/** The Node that runs the tests, with its packages and the fixture programs, for use in commands. */
export const NODE_ROOT = dirname(dirname(process.execPath))
const REPOSITORY = resolve(import.meta.dirname, '../../..')
export const FIXTURES = join(REPOSITORY, 'test/executors/fixtures')
/** A ceiling that allows every folder. Folders that are still rejected can never be shown. */
export const ANY_FOLDER = [{ path: '/', real: '/' }]
export const TOOL_ROOTS = [NODE_ROOT, join(REPOSITORY, 'node_modules'), FIXTURES]

export type Outcome = ExecResult & { stdout: string; stderr: string }
export type Options = Omit<z.input<typeof ExecRequest>, 'command'> & Partial<Pick<ExecIo, 'stdin' | 'signal'>>

/** Runs a command to its end and collects its output. */
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
  /** Creates an executor on an empty workspace. */
  readonly create: (workspace: string) => Promise<Executor>
  readonly supports: Supports
  /** The place where the executor's commands run. @default this machine */
  readonly site?: (workspace: string) => Site
}

type Opened = { workspace: string; executor: Executor; control: Executor; site: Site }

/** The executor under test, and a `direct` one as the control of every attack. */
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

  /** Creates another executor of the same kind. */
  create(workspace: string): Promise<Executor> {
    return this.#create(workspace)
  }

  get workspace(): string {
    return this.#use.workspace
  }

  /** Access to the workspace and the processes from outside the executor. */
  get site(): Site {
    return this.#use.site
  }

  get executor(): Executor {
    return this.#use.executor
  }

  run(command: string, options?: Options): Promise<Outcome> {
    return execute(this.#use.executor, command, options)
  }

  /** Runs the same command without isolation, to show that an attack works there. */
  runUnisolated(command: string, options?: Options): Promise<Outcome> {
    return execute(this.#use.control, command, options)
  }

  get #use() {
    if (!this.#opened) throw new Error('the subject is not open')
    return this.#opened
  }
}
