import type { z } from 'zod'
import { RUNNER_FRAME } from '../../contracts/runner.ts'
import { messageOf } from './errors.ts'

export type FrameErrorReason =
  | 'frame_length'
  | 'header_length'
  | 'header_encoding'
  | 'header_json'
  | 'header_schema'
  | 'payload_unexpected'
  | 'payload_length'
  | 'truncated'
  | 'id_reused'
  | 'window_exceeded'
  | 'unexpected'

/** The peer sent a malformed or unexpected frame. The connection must be closed. */
export class FrameError extends Error {
  readonly reason: FrameErrorReason

  constructor(reason: FrameErrorReason, message: string) {
    super(message)
    this.name = 'FrameError'
    this.reason = reason
  }
}

export interface Frame<Header> {
  readonly header: Header
  readonly payload: Uint8Array
}

const { lengthBytes, maxHeaderBytes, maxFrameBytes, maxChunkBytes } = RUNNER_FRAME
const EMPTY = new Uint8Array()

/** Maximum payload per frame type. Other types have no payload. */
const MAX_PAYLOAD_BYTES: Readonly<Record<string, number>> = {
  chunk: maxChunkBytes,
  data: maxChunkBytes,
  stdin: maxChunkBytes,
  file: maxFrameBytes,
  'file-result': maxFrameBytes,
}

/** Encodes one frame. Throws a FrameError if the receiver would reject it. */
export function encodeFrame(header: { readonly type: string }, payload: Uint8Array = EMPTY): Uint8Array {
  const json = Buffer.from(JSON.stringify(header))
  refuseLengths({ header: json.length, payload: payload.length })
  refusePayload(header.type, payload.length)
  const frame = Buffer.allocUnsafe(2 * lengthBytes + json.length + payload.length)
  frame.writeUInt32BE(frame.length - lengthBytes, 0)
  frame.writeUInt32BE(json.length, lengthBytes)
  json.copy(frame, 2 * lengthBytes)
  frame.set(payload, 2 * lengthBytes + json.length)
  return frame
}

/**
 * Decodes the frames of a byte stream with any chunk boundaries. Keeps at most one frame in memory. Throws a FrameError on
 * a malformed frame or a truncated stream.
 */
export async function* decodeFrames<Schema extends z.ZodType<{ type: string }>>(
  schema: Schema,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Frame<z.output<Schema>>> {
  const collector = new FrameCollector()
  for await (const chunk of source) {
    for (let rest = chunk; rest.length > 0; ) {
      rest = rest.subarray(collector.take(rest))
      const body = collector.complete()
      if (body) yield decodeBody(schema, body)
    }
  }
  if (!collector.isIdle) throw new FrameError('truncated', 'the stream ended in the middle of a frame')
}

/** Collects the prefix of a frame, then its body. The announced length is checked before any byte is buffered. */
class FrameCollector {
  readonly #prefix = Buffer.alloc(2 * lengthBytes)
  #prefixFilled = 0
  #parts: Uint8Array[] = []
  #missing = 0

  get isIdle(): boolean {
    return this.#prefixFilled === 0
  }

  /** Consumes bytes of the current frame and returns how many. */
  take(bytes: Uint8Array): number {
    if (this.#prefixFilled < this.#prefix.length) return this.#takePrefix(bytes)
    // Copied, because the source may reuse its buffer.
    const part = Buffer.from(bytes.subarray(0, this.#missing))
    this.#parts.push(part)
    this.#missing -= part.length
    return part.length
  }

  #takePrefix(bytes: Uint8Array): number {
    const part = bytes.subarray(0, this.#prefix.length - this.#prefixFilled)
    this.#prefix.set(part, this.#prefixFilled)
    this.#prefixFilled += part.length
    if (this.#prefixFilled >= lengthBytes) refuseFrameLength(this.#prefix.readUInt32BE(0))
    if (this.#prefixFilled === this.#prefix.length) this.#missing = this.#bodyLength()
    return part.length
  }

  #bodyLength(): number {
    const body = this.#prefix.readUInt32BE(0) - lengthBytes
    const header = this.#prefix.readUInt32BE(lengthBytes)
    if (header > body) throw new FrameError('header_length', 'the header is longer than its frame')
    refuseLengths({ header, payload: body - header })
    return body
  }

  /** Returns the frame when it is complete, and resets for the next one. */
  complete(): { json: Uint8Array; payload: Uint8Array } | undefined {
    if (this.#prefixFilled < this.#prefix.length || this.#missing > 0) return undefined
    const body = this.#parts.length === 1 ? (this.#parts[0] ?? EMPTY) : Buffer.concat(this.#parts)
    const header = this.#prefix.readUInt32BE(lengthBytes)
    this.#parts = []
    this.#prefixFilled = 0
    return { json: body.subarray(0, header), payload: body.subarray(header) }
  }
}

function decodeBody<Schema extends z.ZodType<{ type: string }>>(
  schema: Schema,
  body: { json: Uint8Array; payload: Uint8Array },
): Frame<z.output<Schema>> {
  const parsed = schema.safeParse(parseJson(body.json))
  if (!parsed.success) {
    throw new FrameError('header_schema', `a frame's header is malformed: ${parsed.error.message}`)
  }
  refusePayload(parsed.data.type, body.payload.length)
  return { header: parsed.data, payload: body.payload }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function parseJson(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch (error) {
    throw refusal(error, 'header_encoding', "a frame's header is not UTF-8")
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    throw refusal(error, 'header_json', "a frame's header is not JSON")
  }
}

const refusal = (error: unknown, reason: FrameErrorReason, message: string): FrameError =>
  new FrameError(reason, `${message}: ${messageOf(error)}`)

function refuseFrameLength(bytes: number): void {
  if (bytes > lengthBytes && bytes <= maxFrameBytes) return
  throw new FrameError(
    'frame_length',
    `a frame of ${bytes} bytes is not between ${lengthBytes + 1} and ${maxFrameBytes}`,
  )
}

function refuseLengths({ header, payload }: { header: number; payload: number }): void {
  if (header === 0 || header > maxHeaderBytes) {
    throw new FrameError(
      'header_length',
      `a header of ${header} bytes is not between 1 and ${maxHeaderBytes}`,
    )
  }
  refuseFrameLength(lengthBytes + header + payload)
}

function refusePayload(type: string, bytes: number): void {
  const max = MAX_PAYLOAD_BYTES[type]
  if (max === undefined && bytes > 0) {
    throw new FrameError('payload_unexpected', `a frame of type ${type} carries no payload`)
  }
  if (max !== undefined && bytes > max) {
    throw new FrameError('payload_length', `a payload of ${bytes} bytes is too long for ${type}`)
  }
}
