import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/**
 * A TCP proxy that breaks lines: the n-th connection is reset after so many bytes of the answer, and passes whole
 * where the list has no number for it. Connections are counted in `opened`.
 */
export async function startCuttingProxy(target: string, cuts: readonly number[]) {
  const { port, hostname } = new URL(target)
  const sockets = new Set<Socket>()
  const state = { url: '', opened: 0 }
  const server = createServer((near) => {
    let left = cuts[state.opened++] ?? Number.POSITIVE_INFINITY
    const far = connect(Number(port), hostname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far)
    far.on('data', (chunk: Buffer) => {
      if (chunk.length <= left) {
        left -= chunk.length
        near.write(chunk)
        return
      }
      near.write(chunk.subarray(0, left), () => near.resetAndDestroy())
      left = 0
    })
    far.on('end', () => near.end())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  state.url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  return state
}
