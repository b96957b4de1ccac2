import type { FileErrorCode, FileOperationInput } from '../../../contracts/files.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import type { FileAnswer } from '../../../contracts/toolbox.ts'
import { parseOperation } from '../../workspace/parse-operation.ts'
import { type HostConnection, unexpected } from './host-connection.ts'

/** Long enough to delete a large directory tree. */
const TIMEOUT_MS = 120_000
const NOTHING = new Uint8Array()

/** Performs one file operation through the runner. Never throws. */
export async function fileCall(
  connection: HostConnection,
  input: FileOperationInput,
  io: { payload?: Uint8Array | undefined; signal?: AbortSignal | undefined } = {},
): Promise<FileAnswer> {
  const parsed = parseOperation(input)
  if (!parsed.ok) return { result: parsed.error, payload: NOTHING }
  if ((io.payload?.length ?? 0) > FILE_LIMITS.maxWriteBytes) {
    return failed('too_large', `at most ${FILE_LIMITS.maxWriteBytes} bytes can be written`)
  }
  if (io.signal?.aborted) return failed('io_error', 'cancelled before it started')
  const { operation } = parsed
  const answered = Promise.withResolvers<FileAnswer>()
  const id = connection.begin({
    accept: (frame) => {
      const { header, payload } = frame
      if (header.type !== 'file-result') throw unexpected(frame)
      if (payload.length > maxPayload(operation)) throw unexpected(frame)
      answered.resolve({ result: header.result, payload })
    },
    lose: (reason) => answered.resolve(failed('io_error', `the runner was lost: ${reason}`)),
  })
  const cancel = () => void connection.send({ type: 'kill', id })
  const timer = setTimeout(() => {
    cancel()
    answered.resolve(failed('timeout', `no response within ${TIMEOUT_MS} ms`))
  }, TIMEOUT_MS)
  io.signal?.addEventListener('abort', cancel, { once: true })
  try {
    await connection.send({ type: 'file', id, operation }, io.payload ?? NOTHING)
    return await answered.promise
  } finally {
    clearTimeout(timer)
    io.signal?.removeEventListener('abort', cancel)
    connection.end(id)
  }
}

/** Only a read returns bytes, and never more than requested. */
function maxPayload(operation: FileOperationInput): number {
  return operation.op === 'read' ? (operation.length ?? FILE_LIMITS.maxReadBytes) : 0
}

const failed = (code: FileErrorCode, message: string): FileAnswer => ({
  result: { ok: false, code, message },
  payload: NOTHING,
})
