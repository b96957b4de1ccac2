import type { AddressInfo } from 'node:net'
import { createConnection } from 'node:net'
import Fastify from 'fastify'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { HEARTBEAT_MS } from '../../contracts/limits.ts'
import { type SseFrame, streamSse } from '../../runtime/agent-host/sse.ts'
import { until } from '../helpers/until.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

/** Connects a client to an SSE stream whose source is under the test's control. */
async function aReader(source: (signal: AbortSignal) => AsyncIterable<SseFrame>) {
  const app = Fastify()
  app.get('/', (_request, reply) => streamSse(reply, source))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const socket = createConnection((app.server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(async () => {
    socket.destroy()
    await app.close()
  })
  let said = ''
  socket.on('data', (chunk) => {
    said += chunk
  })
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  const heard = async (what: string) => {
    await until(`the reader hears ${what}`, () => said.includes(what))
  }
  return { socket, heard, count: (what: string) => said.split(what).length - 1 }
}

const silence = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))

it('sends a heartbeat whenever a stream has been quiet for that long', async () => {
  const reader = await aReader(async function* quiet(signal) {
    yield { data: 'begun' }
    await silence(signal)
  })
  await reader.heard('begun')

  await vi.advanceTimersByTimeAsync(HEARTBEAT_MS - 1)
  expect(reader.count(': heartbeat')).toBe(0)
  await vi.advanceTimersByTimeAsync(2 * HEARTBEAT_MS + 1)
  await until('three heartbeats have come', () => reader.count(': heartbeat') === 3)
})

it('aborts the source when its reader disconnects', async () => {
  const gone = Promise.withResolvers<void>()
  const reader = await aReader(async function* quiet(signal) {
    yield { data: 'begun' }
    await silence(signal)
    gone.resolve()
  })
  await reader.heard('begun')

  reader.socket.destroy()

  await expect(gone.promise).resolves.toBeUndefined()
})

it('does not run ahead of a reader that does not read', async () => {
  let given = 0
  const reader = await aReader(async function* endless() {
    for (;;) {
      given += 1
      yield { data: 'x'.repeat(100_000) }
      await new Promise((resolve) => setImmediate(resolve))
    }
  })
  await reader.heard('xxx')

  reader.socket.pause()
  const isStill = async () => {
    const before = given
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve))
    return given === before
  }

  await until('the source is still', isStill)
  expect(given).toBeLessThan(500)
})
