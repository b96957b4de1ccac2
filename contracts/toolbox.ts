import type { ExecRequest, ExecResult, Isolation, OutputStream } from './exec.ts'
import type { FileOperationInput, FileResult } from './files.ts'

/** The operations of a runner on one workspace: commands and files. Tools reach the workspace only through it. */
export interface Toolbox {
  readonly isolation: Isolation
  /** Failures of the command are in the result and are not thrown. `onChunk` is awaited, which gives backpressure. */
  exec(request: ExecRequest, io: ExecIo): Promise<ExecResult>
  /** For a `write`, `payload` is the content; for a `read`, the reply's payload is. */
  file(
    operation: FileOperationInput,
    io?: { payload?: Uint8Array; signal?: AbortSignal },
  ): Promise<FileAnswer>
}

export interface ExecIo {
  readonly onChunk: (stream: OutputStream, bytes: Uint8Array) => void | Promise<void>
  readonly stdin?: Uint8Array
  readonly signal?: AbortSignal
  /** Stops the command's processes, and lets them continue. */
  readonly freezing?: Freezing
}

/** Whether commands are stopped at the moment. */
export interface Freezing {
  readonly isFrozen: boolean
  /** Calls back after each change. The return value ends that. */
  onChange(listener: () => void): () => void
}

export interface FileAnswer {
  readonly result: FileResult
  readonly payload: Uint8Array
}
