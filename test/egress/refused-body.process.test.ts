import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { endWith, forward } from '../../runtime/egress/forward.ts'

const MIB = 1024 ** 2

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as { port: number }).port
}

/** A client that sends the header of a request, and its body when it has read the whole response. */
async function sendBodyLast(respond: RequestListener, { start = 0, rest = 1 } = {}) {
  const completed = Promise.withResolvers<boolean>()
  const port = await portOf(
    createHttpServer((request, response) => {
      response.once('close', () => completed.resolve(request.complete))
      respond(request, response)
    }),
  )
  const client = connect(port, '127.0.0.1')
  onTestFinished(() => void client.destroy())
  let received = ''
  client.write(`POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${start + rest}\r\n\r\n`)
  client.write(Buffer.alloc(start))
  client.on('data', (bytes) => {
    received += bytes.toString()
    if (received.endsWith('.\n')) client.write(Buffer.alloc(rest))
  })
  const [isFaulty] = await once(client, 'close')
  return { received, isFaulty, isComplete: await completed.promise }
}

it('answers a client that has not sent its body yet, and closes the connection after the body', async () => {
  const sent = await sendBodyLast((_request, response) => endWith(response, 403, 'It is not allowed.'))

  expect(sent.received).toMatch(/^HTTP\/1\.1 403 [\s\S]*content-length: 19\r\n/)
  expect(sent).toMatchObject({ isFaulty: false, isComplete: true })
})

const AMBIGUOUS = 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n'

it.each([
  ['ends the connection', (socket: Socket) => socket.destroy(), /the host ended the connection/],
  ['sends a response without a certain end', (socket: Socket) => socket.write(AMBIGUOUS), /failed: /],
])('answers a client whose host %s in the middle of the body', async (_what, act, reason) => {
  const host = { kind: 'name', name: 'example.com' } as const
  const upstreamPort = await portOf(createServer((socket) => void socket.once('data', () => act(socket))))
  const sent = await sendBodyLast(
    (request, response) =>
      forward({
        ...{
          request,
          response,
          target: { host, port: 80 },
          path: '/',
          protocol: 'http',
          headerBytes: 16_384,
        },
        upstream: connect(upstreamPort, '127.0.0.1'),
        refuse: String,
        spend: () => undefined,
      }),
    { start: MIB, rest: 8 * MIB },
  )

  expect(sent.received).toMatch(/^HTTP\/1\.1 502 /)
  expect(sent.received).toMatch(reason)
  expect(sent).toMatchObject({ isFaulty: false, isComplete: true })
})
