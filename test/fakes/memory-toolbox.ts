import type { ExecRequest, ExecResult, Isolation } from '../../contracts/exec.ts'
import type { FileEntry, FileErrorCode, FileOperationInput, FileResult } from '../../contracts/files.ts'
import type { ExecIo, FileAnswer, Toolbox } from '../../contracts/toolbox.ts'
import { EXITED } from '../helpers/exec-result.ts'

type Command = (request: ExecRequest, io: ExecIo) => Promise<Partial<ExecResult>>
type Entry = { bytes: Uint8Array; mode: number }

const NOTHING = new Uint8Array()

/**
 * A toolbox with a map as its workspace. It implements the part of the contract that the tools need, with faults on
 * demand.
 */
export class MemoryToolbox implements Toolbox {
  isolation: Isolation = {
    backend: 'linux-bwrap',
    isRealIsolation: true,
    enforcesEgress: true,
    reason: 'a fake',
  }
  readonly files = new Map<string, Entry>()
  readonly operations: FileOperationInput[] = []
  readonly requests: ExecRequest[] = []
  /** Operations that fail, by `op path`. */
  readonly faults = new Map<string, FileErrorCode>()
  command: Command = async () => ({})

  put(path: string, content: string | Uint8Array, mode = 0o644): this {
    this.files.set(path, { bytes: typeof content === 'string' ? Buffer.from(content) : content, mode })
    return this
  }

  text(path: string): string | undefined {
    const entry = this.files.get(path)
    return entry && Buffer.from(entry.bytes).toString('utf8')
  }

  async exec(request: ExecRequest, io: ExecIo): Promise<ExecResult> {
    this.requests.push(request)
    return { ...EXITED, ...(await this.command(request, io)) }
  }

  async file(operation: FileOperationInput, io: { payload?: Uint8Array } = {}): Promise<FileAnswer> {
    this.operations.push(operation)
    const fault = this.faults.get(`${operation.op} ${'path' in operation ? operation.path : ''}`)
    if (fault) return answer(refuse(fault, 'planned by the test'))
    switch (operation.op) {
      case 'read':
        return this.#existing(operation.path, (entry) => answer({ ok: true }, entry.bytes))
      case 'stat':
        return this.#existing(operation.path, (entry) =>
          answer({ ok: true, entry: entryOf(operation.path, entry) }),
        )
      case 'write':
        return this.#write(operation, io.payload ?? NOTHING)
      case 'delete':
        return this.#existing(operation.path, () => {
          this.files.delete(operation.path)
          return answer({ ok: true })
        })
      default:
        return answer(refuse('io_error', `the fake has no ${operation.op}`))
    }
  }

  #existing(path: string, use: (entry: Entry) => FileAnswer): FileAnswer {
    if (path.split('/').includes('..'))
      return answer(refuse('path_outside', `${path} is outside the workspace`))
    const entry = this.files.get(path)
    return entry ? use(entry) : answer(refuse('not_found', `${path} does not exist`))
  }

  #write(operation: Extract<FileOperationInput, { op: 'write' }>, payload: Uint8Array): FileAnswer {
    const { path, create = 'allowed', mode } = operation
    const before = this.files.get(path)
    if (before && create === 'exclusive') return answer(refuse('exists', `${path} exists`))
    if (!before && create === 'never') return answer(refuse('not_found', `${path} does not exist`))
    this.files.set(path, { bytes: payload, mode: mode ?? before?.mode ?? 0o644 })
    return answer({ ok: true })
  }
}

const answer = (result: FileResult, payload: Uint8Array = NOTHING): FileAnswer => ({ result, payload })

const refuse = (code: FileErrorCode, message: string): FileResult => ({ ok: false, code, message })

const entryOf = (path: string, { bytes, mode }: Entry): FileEntry => ({
  path,
  type: 'file',
  size: bytes.byteLength,
  mtimeMs: 0,
  mode,
})
