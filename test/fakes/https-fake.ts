import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface FakeRequest {
  readonly method: string
  readonly url: URL
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface FakeAnswer {
  readonly status: number
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** A planted failure of the server: a different response, a connection reset, or no response. */
export type Fault = FakeAnswer | 'reset' | 'silence'

export interface HttpsFakeOptions {
  readonly tls: { readonly cert: string; readonly key: string }
  readonly respond: (request: FakeRequest) => Promise<FakeAnswer>
  /** @default 127.0.0.1, any port */
  readonly listen?: { readonly host: string; readonly port: number }
}

/** A TLS server that records its requests and fails as often as the test demands. */
export async function startHttpsFake({ tls, respond, listen }: HttpsFakeOptions) {
  const requests: FakeRequest[] = []
  const faults: Fault[] = []
  const server = createServer(tls, async (incoming, response) => {
    const request = {
      method: incoming.method ?? '',
      url: new URL(incoming.url ?? '/', 'https://fake'),
      headers: incoming.headers,
      body: await text(incoming),
    }
    requests.push(request)
    const fault = faults.shift()
    if (fault === 'silence') return
    if (fault === 'reset') {
      incoming.socket.destroy()
      return
    }
    const { status, body, headers = {} } = fault ?? (await respond(request))
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers })
    response.end(body === undefined ? '' : JSON.stringify(body))
  })
  server.listen(listen?.port ?? 0, listen?.host ?? '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    requests,
    /** The next requests meet these, one each. */
    failNext: (...next: Fault[]) => void faults.push(...next),
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
