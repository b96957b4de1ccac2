import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HostToRunner, RUNNER_FRAME, RunnerToHost } from '../../contracts/runner.ts'
import { decodeFrames, encodeFrame, type Frame, FrameError } from '../../runtime/kit/frames.ts'

const chunk = { type: 'chunk', id: '1', stream: 'stdout' } as const

describe('a frame', () => {
  it('comes out as it went in, however the bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(someFrames(), fc.array(fc.integer({ min: 1, max: 200 })), async (frames, cuts) => {
        const bytes = Buffer.concat(frames.map(({ header, payload }) => encodeFrame(header, payload)))

        const decoded = await collect(decodeFrames(HostToRunner, cut(bytes, cuts)))

        expect(decoded.map(plain)).toEqual(frames.map(plain))
      }),
    )
  })

  it('survives a source that uses its buffer again', async () => {
    const bytes = encodeFrame(chunk, Buffer.alloc(1000, 'a'))
    const reusing = async function* () {
      const buffer = Buffer.alloc(100)
      for (let at = 0; at < bytes.length; at += 100) {
        const length = Math.min(100, bytes.length - at)
        buffer.set(bytes.subarray(at, at + length))
        yield buffer.subarray(0, length)
        buffer.fill('z')
      }
    }

    const [frame] = await collect(decodeFrames(RunnerToHost, reusing()))

    expect(Buffer.from(frame?.payload ?? []).toString()).toBe('a'.repeat(1000))
  })

  it('fills in the defaults of its schema', async () => {
    const bytes = encodeFrame({ type: 'stdin', id: '7' } as never, Buffer.from('x'))

    const [frame] = await collect(decodeFrames(HostToRunner, cut(bytes, [])))

    expect(frame?.header).toEqual({ type: 'stdin', id: '7', end: false })
  })
})

const MALFORMED: readonly [string, string, () => Uint8Array][] = [
  ['a length of zero', 'frame_length', () => raw({ length: 0, header: 0 })],
  [
    'a length over the limit',
    'frame_length',
    () => raw({ length: RUNNER_FRAME.maxFrameBytes + 1, header: 10 }),
  ],
  ['a length of 4 GiB', 'frame_length', () => raw({ length: 0xffff_ffff, header: 10 })],
  ['an empty header', 'header_length', () => raw({ length: 14, header: 0 })],
  ['a header longer than the frame', 'header_length', () => raw({ length: 14, header: 11 })],
  [
    'a header over the limit',
    'header_length',
    () => raw({ length: 2 + RUNNER_FRAME.maxHeaderBytes + 4, header: 1 + RUNNER_FRAME.maxHeaderBytes }),
  ],
  ['a header that is not UTF-8', 'header_encoding', () => framed(Buffer.from([0x7b, 0xff, 0x7d]))],
  ['a header that is not JSON', 'header_json', () => framed(Buffer.from('{'))],
  ['a header of another shape', 'header_schema', () => framed(Buffer.from('{"type":"launch","id":"1"}'))],
  [
    'a header with an unknown key',
    'header_schema',
    () => framed(Buffer.from(JSON.stringify({ ...chunk, x: 1 }))),
  ],
  ['a header that is null', 'header_schema', () => framed(Buffer.from('null'))],
  [
    'a payload where none belongs',
    'payload_unexpected',
    () => framed(Buffer.from('{"type":"opened","id":"1"}'), Buffer.from('x')),
  ],
  [
    'a payload over the limit of its type',
    'payload_length',
    () => framed(Buffer.from(JSON.stringify(chunk)), Buffer.alloc(RUNNER_FRAME.maxChunkBytes + 1)),
  ],
  [
    'an end in the middle of a frame',
    'truncated',
    () => encodeFrame(chunk, Buffer.from('abc')).subarray(0, -1),
  ],
  ['an end in the middle of a length', 'truncated', () => Buffer.from([0, 0])],
]

describe('a malformed stream', () => {
  it.each(MALFORMED)('is refused for %s as %s', async (_title, reason, bytes) => {
    const good = encodeFrame(chunk, Buffer.from('good'))
    const frames = decodeFrames(RunnerToHost, cut(Buffer.concat([good, bytes()]), []))

    expect((await frames.next()).value?.header).toEqual(chunk)
    await expect(frames.next()).rejects.toMatchObject({ name: 'FrameError', reason })
  })

  it('is refused before a byte of a frame that is too long is asked for', async () => {
    let asked = 0
    const source = async function* () {
      yield raw({ length: 0x7fff_ffff, header: 100 })
      for (; asked < 1000; asked++) yield Buffer.alloc(65_536)
    }

    await expect(collect(decodeFrames(RunnerToHost, source()))).rejects.toBeInstanceOf(FrameError)

    expect(asked).toBe(0)
  })

  it('never yields anything but frames of the schema, nor fails otherwise than by name', async () => {
    await fc.assert(
      fc.asyncProperty(noise(), async (bytes) => {
        try {
          for await (const { header } of decodeFrames(RunnerToHost, cut(bytes, [7, 100]))) {
            expect(RunnerToHost.safeParse(header).success).toBe(true)
          }
        } catch (error) {
          expect(error).toBeInstanceOf(FrameError)
        }
      }),
      { numRuns: 500 },
    )
  })

  it('cannot be sent by mistake', () => {
    expect(() => encodeFrame(chunk, Buffer.alloc(RUNNER_FRAME.maxChunkBytes + 1))).toThrow(FrameError)
    expect(() => encodeFrame({ type: 'kill', id: '1' } as never, Buffer.from('x'))).toThrow(FrameError)
    const long = { type: 'open', id: '1', root: 'x'.repeat(RUNNER_FRAME.maxHeaderBytes) }
    expect(() => encodeFrame(long)).toThrow(FrameError)
  })
})

const plain = <Header>({ header, payload }: Frame<Header>) => ({
  header,
  payload: Buffer.from(payload).toString('hex'),
})

function raw({ length, header }: { length: number; header: number }): Buffer {
  const bytes = Buffer.alloc(18)
  bytes.writeUInt32BE(length, 0)
  bytes.writeUInt32BE(header, 4)
  return bytes
}

function framed(json: Uint8Array, payload: Uint8Array = new Uint8Array()): Buffer {
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32BE(4 + json.length + payload.length, 0)
  lengths.writeUInt32BE(json.length, 4)
  return Buffer.concat([lengths, json, payload])
}

/** Yields pieces of the given sizes, then the rest. */
async function* cut(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let at = 0
  for (const size of sizes) {
    yield bytes.subarray(at, at + size)
    at += size
  }
  yield bytes.subarray(at)
}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of source) items.push(item)
  return items
}

function someFrames(): fc.Arbitrary<Frame<HostToRunner>[]> {
  const id = fc.string({ minLength: 1, maxLength: 20 })
  const payload = fc.uint8Array({ maxLength: 300 })
  const none = fc.constant(new Uint8Array())
  const frame = (header: fc.Arbitrary<HostToRunner>, bytes: fc.Arbitrary<Uint8Array>) =>
    fc.record({ header, payload: bytes })
  return fc.array(
    fc.oneof(
      frame(fc.record({ type: fc.constant('data' as const), id }), payload),
      frame(fc.record({ type: fc.constant('stdin' as const), id, end: fc.boolean() }), payload),
      frame(fc.record({ type: fc.constant('kill' as const), id }), none),
      frame(fc.record({ type: fc.constant('open' as const), id, root: fc.string({ minLength: 1 }) }), none),
      frame(fc.record({ type: fc.constant('credit' as const), id, bytes: fc.integer({ min: 1 }) }), none),
    ),
  )
}

/** Generates random bytes, and valid frames with one changed byte. */
function noise(): fc.Arbitrary<Uint8Array> {
  const damaged = fc
    .tuple(fc.uint8Array({ maxLength: 50 }), fc.nat(), fc.integer({ min: 1, max: 255 }))
    .map(([payload, at, change]) => {
      const bytes = Buffer.concat([encodeFrame(chunk, payload), encodeFrame(chunk, payload)])
      const index = at % bytes.length
      bytes[index] = (bytes[index] ?? 0) ^ change
      return bytes
    })
  return fc.oneof(fc.uint8Array({ maxLength: 300 }), damaged)
}
