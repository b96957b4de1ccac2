import { SandboxError } from '../../kit/errors.ts'

const tooLarge = (maxBytes: number) =>
  new SandboxError('payload_too_large', `The body is larger than ${maxBytes} bytes.`)

/** A body that fails as soon as it exceeds the limit: by its `Content-Length`, otherwise by its bytes. */
export function boundStream(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  announced?: unknown,
): AsyncIterable<Uint8Array> {
  if (Number(announced) > maxBytes) throw tooLarge(maxBytes)
  return counted(body, maxBytes)
}

async function* counted(body: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.byteLength
    if (bytes > maxBytes) throw tooLarge(maxBytes)
    yield chunk
  }
}
