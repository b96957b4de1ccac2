import type { ExecRequest, ExecResult, Isolation, OutputStream } from './exec.ts'
import type { FileOperationInput, FileResult } from './files.ts'

/** What a runner serves: commands, files and archives of one workspace. Tools know nothing else of it. */
export interface Toolbox {
  readonly isolation: Isolation
  /** Never throws for what the command did. `onChunk` is awaited, so a slow reader slows the command's output. */
  exec(request: ExecRequest, io: ExecIo): Promise<ExecResult>
  /** `payload` is the content of a `write`; the answer's payload is that of a `read`. */
  file(
    operation: FileOperationInput,
    io?: { payload?: Uint8Array; signal?: AbortSignal },
  ): Promise<FileAnswer>
}

export interface ExecIo {
  readonly onChunk: (stream: OutputStream, bytes: Uint8Array) => void | Promise<void>
  readonly stdin?: Uint8Array
  readonly signal?: AbortSignal
}

export interface FileAnswer {
  readonly result: FileResult
  readonly payload: Uint8Array
}
