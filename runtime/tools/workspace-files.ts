import type { FileEntry, FileError } from '../../contracts/files.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import type { FileAnswer, Toolbox } from '../../contracts/toolbox.ts'
import { failure } from './outcome.ts'

type Read = { readonly ok: true; readonly bytes: Uint8Array } | FileError
type Text = { readonly ok: true; readonly text: string } | FileError
type Written = { readonly ok: true } | FileError

/**
 * Whether a write may replace an existing file: `exclusive` fails if the file exists, `never` fails if it does
 * not.
 */
export interface WriteOptions {
  readonly create: 'never' | 'allowed' | 'exclusive'
  readonly mode?: number
}

const NUL_SEARCH_BYTES = 8192

/** The file operations of a toolbox, for tools. Returns errors instead of throwing them. */
export class WorkspaceFiles {
  readonly #toolbox: Toolbox

  constructor(toolbox: Toolbox) {
    this.#toolbox = toolbox
  }

  async read(path: string, signal?: AbortSignal): Promise<Read> {
    const { result, payload } = await this.#toolbox.file({ op: 'read', path }, pick(signal))
    return result.ok ? { ok: true, bytes: payload } : result
  }

  /** Reads a text file that can be written back unchanged: UTF-8 without NUL. */
  async readText(path: string, signal?: AbortSignal): Promise<Text> {
    const read = await this.read(path, signal)
    if (!read.ok) return read
    if (isBinary(read.bytes)) return binary(path)
    try {
      return { ok: true, text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(read.bytes) }
    } catch {
      return binary(path, 'is not UTF-8 text')
    }
  }

  /** Returns the entry at a path. `entry` is undefined if the path does not exist. */
  async stat(
    path: string,
    signal?: AbortSignal,
  ): Promise<{ ok: true; entry: FileEntry | undefined } | FileError> {
    const { result } = await this.#toolbox.file({ op: 'stat', path }, pick(signal))
    if (result.ok) return { ok: true, entry: result.entry }
    return result.code === 'not_found' ? { ok: true, entry: undefined } : result
  }

  async write(path: string, content: string | Uint8Array, options: WriteOptions): Promise<Written> {
    const payload = typeof content === 'string' ? new TextEncoder().encode(content) : content
    if (payload.byteLength <= FILE_LIMITS.maxWriteBytes) {
      return written(await this.#toolbox.file({ op: 'write', path, ...options }, { payload }))
    }
    const message = `${path} would have ${payload.byteLength} bytes, more than ${FILE_LIMITS.maxWriteBytes}`
    return { ok: false, code: 'too_large', message }
  }

  async delete(path: string): Promise<Written> {
    return written(await this.#toolbox.file({ op: 'delete', path }))
  }
}

const written = ({ result }: FileAnswer): Written => (result.ok ? { ok: true } : result)

const pick = (signal: AbortSignal | undefined) => (signal ? { signal } : {})

/** Detects binary files by a NUL near the beginning, as git does. */
export const isBinary = (bytes: Uint8Array): boolean => bytes.subarray(0, NUL_SEARCH_BYTES).includes(0)

export const binary = (path: string, why = 'is a binary file'): FileError => ({
  ok: false,
  code: 'binary',
  message: `${path} ${why}. Use run_command to look at it or to change it`,
})

/** Converts an error of the workspace engine to an outcome for the model. */
export const refusal = ({ code, message }: FileError) => failure(code, message)
