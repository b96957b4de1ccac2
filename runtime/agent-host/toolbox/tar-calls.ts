import type { FileError } from '../../../contracts/files.ts'
import { type HostToRunnerInput, RUNNER_FRAME, type RunnerToHost } from '../../../contracts/runner.ts'
import { CreditWindow, costOf } from '../../kit/credit-window.ts'
import { SandboxError } from '../../kit/errors.ts'
import { type HostConnection, unexpected } from './host-connection.ts'
import { IncomingStream } from './incoming-stream.ts'
import type { ArchiveOutcome } from './runner-link.ts'

const lost = (reason: string) => new SandboxError('sandbox_lost', `the runner was lost: ${reason}`)

export async function tarInCall(
  connection: HostConnection,
  source: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<ArchiveOutcome> {
  signal?.throwIfAborted()
  const window = new CreditWindow(RUNNER_FRAME.windowBytes)
  const answered = Promise.withResolvers<ArchiveOutcome>()
  const settle = () => window.close()
  answered.promise.then(settle, settle)
  const id = connection.begin({
    accept: (frame) => {
      if (frame.header.type === 'credit') {
        if (!window.give(frame.header.bytes)) throw unexpected(frame)
      } else if (frame.header.type === 'tar-result') answered.resolve(outcomeOf(frame.header))
      else throw unexpected(frame)
    },
    lose: (reason) => answered.reject(lost(reason)),
  })
  const cancel = () => answered.reject(signal?.reason)
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    await connection.send({ type: 'tar-in', id })
    await sendAll(source, { connection, id, window, answered: answered.promise })
    return await answered.promise
  } catch (error) {
    await connection.send({ type: 'kill', id })
    throw error
  } finally {
    signal?.removeEventListener('abort', cancel)
    connection.end(id)
  }
}

function outcomeOf({ entries, bytes, error }: RunnerToHost & { type: 'tar-result' }): ArchiveOutcome {
  return { entries, bytes, ...(error ? { error } : {}) }
}

interface Sending {
  readonly connection: HostConnection
  readonly id: string
  readonly window: CreditWindow
  readonly answered: Promise<ArchiveOutcome>
}

/** Sends until the source ends or the runner responds. The runner responds early if it rejects an entry. */
async function sendAll(source: AsyncIterable<Uint8Array>, sending: Sending): Promise<void> {
  const iterator = source[Symbol.asyncIterator]()
  const early = sending.answered.then(() => undefined)
  while (true) {
    const next = await Promise.race([iterator.next(), early])
    if (next?.done) return sending.connection.send({ type: 'end', id: sending.id })
    if (next && (await sendPieces(next.value, sending))) continue
    // Not awaited: a source that is blocked would delay the response.
    void iterator.return?.()
    return
  }
}

/** Returns false once the runner has responded. */
async function sendPieces(bytes: Uint8Array, { connection, id, window }: Sending): Promise<boolean> {
  for (let at = 0; at < bytes.length; at += RUNNER_FRAME.maxChunkBytes) {
    const piece = bytes.subarray(at, at + RUNNER_FRAME.maxChunkBytes)
    if (!(await window.take(costOf(piece)))) return false
    await connection.send({ type: 'data', id }, piece)
  }
  return true
}

type Outgoing =
  | { readonly type: 'tar-out' | 'manifest' }
  | { readonly type: 'pack'; readonly contents: readonly string[] }

/** Receives a stream from the runner. If the consumer stops early, the runner gets a `kill`. */
export async function* streamCall(
  connection: HostConnection,
  outgoing: Outgoing,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  signal?.throwIfAborted()
  const incoming = new IncomingStream<{ bytes: Uint8Array }>(connection)
  const outcome: { failure?: unknown; isComplete: boolean } = { isComplete: false }
  const settle = (failure?: unknown) => {
    outcome.failure ??= failure
    outcome.isComplete = true
    incoming.end()
  }
  const id = connection.begin({
    accept: (frame) => {
      if (frame.header.type === 'data') incoming.push({ bytes: frame.payload })
      else if (frame.header.type === 'tar-result') settle(frame.header.error && toFault(frame.header.error))
      else throw unexpected(frame)
    },
    lose: (reason) => settle(lost(reason)),
  })
  const cancel = () => settle(signal?.reason)
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    await connection.send({ ...outgoing, id } as HostToRunnerInput)
    for await (const { bytes } of incoming.consume(id)) yield bytes
    if (outcome.failure !== undefined) throw outcome.failure
  } finally {
    signal?.removeEventListener('abort', cancel)
    connection.end(id)
    await connection.send({ type: 'kill', id })
  }
}

const toFault = ({ code, message }: FileError): SandboxError =>
  new SandboxError(code === 'too_large' ? 'payload_too_large' : 'workspace_invalid', message)
