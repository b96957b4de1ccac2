import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import type { HostEnvelope } from '../../contracts/events.ts'
import { HEARTBEAT_MS } from '../../contracts/limits.ts'
import { connectAgentHost } from '../../runtime/agent-host-client/connection.ts'
import { followHostEvents, SILENCE_MS } from '../../runtime/agent-host-client/events.ts'

const never = new AbortController().signal
const trustful = { verify: async () => undefined }

const frame = (sequence: number) => {
  const envelope = { sequence, at: '2026-01-01T00:00:00Z', event: SAID }
  return `id: ${sequence}\nevent: agent.message\ndata: ${JSON.stringify(envelope)}\n\n`
}
const SAID: HostEnvelope['event'] = { type: 'agent.message', data: { messageId: 'm', text: 'x' } }

/** An event stream that the test writes, and a reader of it. */
async function aStream() {
  const opened = Promise.withResolvers<ServerResponse>()
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(frame(1))
    opened.resolve(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const connection = connectAgentHost({ baseUrl: `http://127.0.0.1:${port}`, guard: trustful }, 'bearer')
  onTestFinished(async () => {
    await connection.close()
    server.closeAllConnections()
    server.close()
  })
  const events = followHostEvents(connection, 0, never)
  expect((await events.next()).value).toMatchObject({ sequence: 1 })
  return { events, far: await opened.promise }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

const turnOfTheLoop = () => new Promise<void>((resolve) => setImmediate(resolve))

it('fails with sandbox_lost if no heartbeat arrives', async () => {
  const { events } = await aStream()
  const next = events.next()
  next.catch(() => undefined)
  await turnOfTheLoop()

  await vi.advanceTimersByTimeAsync(SILENCE_MS + 1)

  await expect(next).rejects.toMatchObject({
    code: 'sandbox_lost',
    message: expect.stringContaining('heartbeat'),
  })
})

it('keeps a stream that has only heartbeats', async () => {
  const { events, far } = await aStream()
  const next = events.next()

  for (let beat = 0; beat < 10; beat++) {
    await vi.advanceTimersByTimeAsync(HEARTBEAT_MS)
    far.write(': heartbeat\n\n')
    for (let turn = 0; turn < 20; turn++) await turnOfTheLoop()
  }
  far.write(frame(2))

  await expect(next).resolves.toMatchObject({ value: { sequence: 2 } })
})

it('does not count the time in which the consumer is busy', async () => {
  const { events, far } = await aStream()

  await vi.advanceTimersByTimeAsync(10 * SILENCE_MS)
  far.write(frame(2))

  await expect(events.next()).resolves.toMatchObject({ value: { sequence: 2 } })
})
