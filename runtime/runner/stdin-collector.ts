import { EXEC_LIMITS } from '../../contracts/exec.ts'
import type { HostFrame } from './connection.ts'

/** Collects the standard input of a command, which starts once the input is complete. */
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

  /** Returns the whole input. Undefined if it is too long, or if the command was cancelled first. */
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
