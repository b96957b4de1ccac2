import { EXEC_LIMITS } from '../../contracts/exec.ts'
import type { HostFrame } from './connection.ts'

/** Gathers the input of a command, which starts once all of it is here. */
export class StdinCollector {
  readonly #parts: Uint8Array[] = []
  readonly #complete = Promise.withResolvers<Uint8Array | undefined>()
  #bytes = 0

  readonly receive = ({ header, payload }: HostFrame): void => {
    if (header.type !== 'stdin') return
    this.#bytes += payload.length
    if (this.#bytes > EXEC_LIMITS.maxStdinBytes) {
      this.#parts.length = 0
      this.#complete.resolve(undefined)
      return
    }
    this.#parts.push(payload)
    if (header.end) this.#complete.resolve(Buffer.concat(this.#parts))
  }

  /** The whole input; undefined where it is longer than permitted or the command was cancelled before. */
  async collect(signal: AbortSignal): Promise<Uint8Array | undefined> {
    const cancel = () => this.#complete.resolve(undefined)
    signal.addEventListener('abort', cancel, { once: true })
    if (signal.aborted) cancel()
    try {
      return await this.#complete.promise
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }
}
