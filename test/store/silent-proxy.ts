import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'

/**
 * A TCP proxy to PostgreSQL on a Unix socket. Its connections can stop forwarding data without closing, or be refused.
 */
export async function proxyTo(url: string) {
  const socketFolder = new URL(url).searchParams.get('host')
  const sockets: Socket[] = []
  let connections = 0
  let isSilent = false
  const server = createServer((client) => {
    connections += 1
    const upstream = createConnection(`${socketFolder}/.s.PGSQL.5432`)
    for (const socket of [client, upstream]) {
      socket.on('error', () => undefined)
      sockets.push(socket)
    }
    if (!isSilent) client.pipe(upstream).pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const through = new URL(url)
  through.searchParams.delete('host')
  through.hostname = '127.0.0.1'
  through.port = String(port)
  return {
    url: through.href,
    connections: () => connections,
    /** Keeps the open connections open, but forwards no more data on them. */
    freezeCurrent: () => {
      for (const socket of sockets) socket.unpipe().pause()
    },
    /** The same, also for new connections until `thaw`. Connections that were silent once stay silent. */
    freeze: () => {
      isSilent = true
      for (const socket of sockets) socket.unpipe().pause()
    },
    thaw: () => {
      isSilent = false
    },
    /** Closes all open connections, and refuses new ones. */
    refuse: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      for (const socket of sockets.splice(0)) socket.destroy()
      await closed
    },
    accept: () => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve)),
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
