import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { z } from 'zod'
import { ExecRequest, type ExecResult } from '../../../contracts/exec.ts'
import type { ExecIo } from '../../../contracts/toolbox.ts'
import { directBackend } from '../../../runtime/executors/direct.ts'
import type { Executor } from '../../../runtime/executors/executor.ts'
import { silentLog } from '../../../runtime/kit/log.ts'

/** What a backend promises beyond the contract's core. */
export interface Supports {
  /** Mounts, processes, environment and network of the host are out of reach. */
  readonly isolation: boolean
  readonly syscallFilter: boolean
  /** The number of processes is bounded on this machine. */
  readonly processLimit: boolean
}

/** The Node that runs the tests, its packages and our fixture programs, as a command may use them. */
export const NODE_ROOT = dirname(dirname(process.execPath))
const REPOSITORY = resolve(import.meta.dirname, '../../..')
export const FIXTURES = join(REPOSITORY, 'test/executors/fixtures')
export const TOOL_ROOTS = [NODE_ROOT, join(REPOSITORY, 'node_modules'), FIXTURES]

export type Outcome = ExecResult & { stdout: string; stderr: string }
export type Options = Omit<z.input<typeof ExecRequest>, 'command'> & Partial<Pick<ExecIo, 'stdin' | 'signal'>>

/** Runs a command to its end and keeps what it said. */
export async function execute(executor: Executor, command: string, options: Options = {}): Promise<Outcome> {
  const { stdin, signal, ...fields } = options
  const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
  const result = await executor.run(ExecRequest.parse({ command, timeoutMs: 20_000, ...fields }), {
    onChunk: (stream, bytes) => {
      kept[stream].push(bytes)
    },
    ...(stdin && { stdin }),
    ...(signal && { signal }),
  })
  const text = (pieces: Uint8Array[]) => Buffer.concat(pieces).toString()
  return { ...result, stdout: text(kept.stdout), stderr: text(kept.stderr) }
}

/** The executor under test over its workspace, and an unisolated one as the control of every attack. */
export class Subject {
  readonly supports: Supports
  readonly #create: (workspace: string) => Promise<Executor>
  #opened: { workspace: string; executor: Executor; control: Executor } | undefined

  constructor(create: (workspace: string) => Promise<Executor>, supports: Supports) {
    this.#create = create
    this.supports = supports
  }

  async open(): Promise<void> {
    const workspace = await temporaryFolder()
    const executor = await this.#create(workspace)
    const control = await directBackend.create({ workspace, toolRoots: TOOL_ROOTS, log: silentLog })
    this.#opened = { workspace, executor, control }
  }

  async close(): Promise<void> {
    await this.#opened?.executor.close()
    await this.#opened?.control.close()
    if (this.#opened) await rm(this.#opened.workspace, { recursive: true, force: true })
  }

  get workspace(): string {
    return this.#use.workspace
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

export const temporaryFolder = async () => realpath(await mkdtemp(join(tmpdir(), 'agentweaver-test-')))
