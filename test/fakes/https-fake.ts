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

/**
 * A planted failure of the server: a different response, a connection reset before or after the request is carried out, or no
 * response. `none`: this request is served.
 */
export type Fault = FakeAnswer | 'reset' | 'answer-lost' | 'silence' | 'none'

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
    const answer = await answerTo(request, fault, respond)
    if (answer === 'silence') return
    if (answer === 'reset') {
      incoming.socket.destroy()
      return
    }
    const { status, body, headers = {} } = answer
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

async function answerTo(
  request: FakeRequest,
  fault: Fault | undefined,
  respond: HttpsFakeOptions['respond'],
): Promise<FakeAnswer | 'reset' | 'silence'> {
  if (fault === undefined || fault === 'none') return respond(request)
  if (fault !== 'answer-lost') return fault
  await respond(request)
  return 'reset'
}
