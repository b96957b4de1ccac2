import { type AddressInfo, createConnection, createServer } from 'node:net'
import { text } from 'node:stream/consumers'

/**
 * Serves a value to all test files of a run, as JSON on a loopback port. It is made when the first file asks, so a run
 * without such a file only opens a socket.
 */
export async function serveOnce<T>(make: () => Promise<T>): Promise<{ port: number; close: () => void }> {
  let value: Promise<T> | undefined
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    value ??= make()
    value.then(
      (made) => socket.end(JSON.stringify(made)),
      (error: Error) => socket.destroy(error),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() }
}

/** Asks for a value of `serveOnce`. */
export async function askFor<T>(port: number): Promise<T> {
  return JSON.parse(await text(createConnection({ host: '127.0.0.1', port }))) as T
}
