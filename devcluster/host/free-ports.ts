import { createServer, type Server } from 'node:net'
import { deferred } from '../deferred.ts'
import { messageOf } from '../harness-error.ts'

const TRIES = 4
const TAKEN = /address already in use|EADDRINUSE/i

/** Loopback ports that are free at this moment. */
export async function chooseFreePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, listenAnywhere))
  const ports = servers.map((server) => (server.address() as { port: number }).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

async function listenAnywhere(): Promise<Server> {
  const server = createServer()
  const { promise, resolve, reject } = deferred()
  server.once('error', reject).listen(0, '127.0.0.1', resolve)
  await promise
  return server
}

/**
 * Starts a program on free ports. Another program can take a port before it is used, so a start that fails with
 * "address already in use" is retried with other ports.
 */
export async function withFreePorts<T>(
  count: number,
  start: (ports: number[]) => Promise<T>,
  choose: (count: number) => Promise<number[]> = chooseFreePorts,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start(await choose(count))
    } catch (error) {
      if (attempt >= TRIES || !TAKEN.test(messageOf(error))) throw error
    }
  }
}
