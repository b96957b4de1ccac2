import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'

/** A way to the PostgreSQL on a Unix socket whose connections can be made to fall silent without closing. */
export async function proxyTo(url: string) {
  const socketFolder = new URL(url).searchParams.get('host')
  const sockets: Socket[] = []
  let connections = 0
  const server = createServer((client) => {
    connections += 1
    const upstream = createConnection(`${socketFolder}/.s.PGSQL.5432`)
    for (const socket of [client, upstream]) {
      socket.on('error', () => undefined)
      sockets.push(socket)
    }
    client.pipe(upstream).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const through = new URL(url)
  through.searchParams.delete('host')
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as AddressInfo).port)
  return {
    url: through.href,
    connections: () => connections,
    /** What is open stays open and answers no more. */
    freezeCurrent: () => {
      for (const socket of sockets) socket.unpipe().pause()
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
