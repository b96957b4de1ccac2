import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

/**
 * An HTTP proxy for a few names, like a cluster's egress proxy. It routes these names to ports of this machine, rejects
 * all other names, and records the requested names. TLS passes through end to end.
 */
export async function startNameProxy(names: ReadonlyMap<string, number>, host = '127.0.0.1') {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((_request, response) => response.writeHead(403).end())
  server.on('connect', (request, near: Socket) => {
    const name = request.url?.split(':')[0] ?? ''
    asked.push(name)
    const port = names.get(name)
    sockets.add(near)
    near.on('error', () => undefined)
    if (port === undefined) {
      near.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')
      return
    }
    const far = connect(port, '127.0.0.1', () => {
      near.write('HTTP/1.1 200 Connection established\r\n\r\n')
      near.pipe(far).pipe(near)
    })
    far.on('error', () => near.destroy())
    near.on('close', () => far.destroy())
  })
  server.listen(0, host)
  await once(server, 'listening')
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    asked,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
