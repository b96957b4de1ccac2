import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { endWith } from '../../runtime/egress/forward.ts'

it('answers a client that has not sent its body yet, and closes the connection after the body', async () => {
  const closed = Promise.withResolvers<boolean>()
  const server = createServer((request, response) => {
    response.once('close', () => closed.resolve(request.complete))
    endWith(response, 403, 'it is not allowed')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const client = connect((server.address() as { port: number }).port, '127.0.0.1')
  onTestFinished(() => void client.destroy())
  let received = ''

  client.write('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n')
  client.on('data', (bytes) => {
    received += bytes.toString()
    if (received.endsWith('it is not allowed\n')) client.write('x')
  })
  const [isFaulty] = await once(client, 'close')

  expect(received).toMatch(/^HTTP\/1\.1 403 [\s\S]*content-length: 18\r\n/)
  expect(isFaulty).toBe(false)
  expect(await closed.promise).toBe(true)
})
