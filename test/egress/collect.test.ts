import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { collect } from '../../runtime/egress/collect.ts'

const NOTHING = Buffer.alloc(0)
const HOUR_MS = 3_600_000

it('leaves a packet that arrived together with the last one to the next reader', async () => {
  const stream = new PassThrough().pause()
  const socket = stream as unknown as Socket
  for (const packet of ['first', 'second']) stream.write(packet)
  const any = (bytes: Buffer) => (bytes.length > 0 ? bytes.toString() : undefined)

  const first = await collect(socket, { before: NOTHING, read: any, ms: HOUR_MS })
  const second = await collect(socket, { before: NOTHING, read: any, ms: HOUR_MS })

  expect([first?.result, second?.result]).toEqual(['first', 'second'])
})

it('reads nothing more if the bytes before are enough', async () => {
  const stream = new PassThrough().pause()
  stream.write('next')

  const found = await collect(stream as unknown as Socket, {
    before: Buffer.from('x'),
    read: (bytes) => bytes.toString(),
    ms: HOUR_MS,
  })

  expect(found?.result).toBe('x')
  expect(stream.read()?.toString()).toBe('next')
})

it('has no result when the stream ends first', async () => {
  const stream = new PassThrough()
  stream.end()

  expect(
    await collect(stream as unknown as Socket, { before: NOTHING, read: () => undefined, ms: HOUR_MS }),
  ).toBeUndefined()
})

it('leaves the bytes for the next reader, also if the peer has ended its side', async () => {
  const stream = new PassThrough()
  stream.end('all of it')

  const found = await collect(stream as unknown as Socket, {
    ...{ before: NOTHING, read: (bytes) => (bytes.length > 0 ? true : undefined), ms: HOUR_MS },
    leaves: () => true,
  })
  // The end of the stream is handled before anything reads on.
  await new Promise((resolve) => setImmediate(resolve))

  expect(found?.bytes.toString()).toBe('all of it')
  expect((await stream.resume().toArray()).join('')).toBe('all of it')
})
