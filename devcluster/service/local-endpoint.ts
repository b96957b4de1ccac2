import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PUBLIC_NAME } from './names.ts'

/** Cluster N uses this port plus N, so a saved login stays valid when the cluster is started again. */
const FIRST_PORT = 18_080

export interface LocalEndpoint {
  readonly url: string
  stop(): Promise<void>
}

/**
 * A local HTTP port that forwards requests to the service under its public host name, because the service accepts no
 * other name. Like the service, it rejects requests whose `Host` is not the port's own.
 */
export async function openLocalEndpoint(slot: number, tunnelPort: number): Promise<LocalEndpoint> {
  const agent = new Agent({ keepAlive: true })
  const server = createServer((incoming, outgoing) => {
    const { port } = server.address() as AddressInfo
    if (!isOwnHost(incoming.headers.host, port)) {
      outgoing.writeHead(421).end(`Use http://127.0.0.1:${port}\n`)
      return
    }
    forward(incoming, outgoing, { agent, tunnelPort })
  })
  await listen(server, FIRST_PORT + slot).catch(() => listen(server, 0))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      server.close()
      server.closeAllConnections()
      agent.destroy()
    },
  }
}

async function listen(server: ReturnType<typeof createServer>, port: number): Promise<void> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
}

const isOwnHost = (host: string | undefined, port: number) =>
  host === `127.0.0.1:${port}` || host === `localhost:${port}`

interface Route {
  readonly agent: Agent
  readonly tunnelPort: number
}

function forward(incoming: IncomingMessage, outgoing: ServerResponse, { agent, tunnelPort }: Route): void {
  const { method, url: path, headers } = incoming
  const target = { host: '127.0.0.1', port: tunnelPort, agent }
  const sent = request({ ...target, method, path, headers: { ...headers, host: PUBLIC_NAME } }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(outgoing)
    answer.on('error', () => outgoing.destroy())
  })
  sent.on('error', () => {
    if (outgoing.headersSent) outgoing.destroy()
    else outgoing.writeHead(502).end('The service in the cluster cannot be reached.\n')
  })
  outgoing.on('close', () => sent.destroy())
  incoming.pipe(sent)
}
