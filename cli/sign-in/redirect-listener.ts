import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const PATH = '/callback'
const HEADERS = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'",
  connection: 'close',
}

export interface RedirectListener extends AsyncDisposable {
  readonly uri: string
  /** The response of the issuer, as the URL with its parameters. */
  readonly response: Promise<URL>
}

/**
 * Waits on the loopback interface for the browser, which the issuer redirects (RFC 8252). Any page can make the browser send a
 * request here, so one with another state is refused, and the wait continues.
 */
export async function listenForRedirect(state: string): Promise<RedirectListener> {
  const { promise: response, resolve } = Promise.withResolvers<URL>()
  let uri = ''
  const server = createServer((request, reply) => {
    const url = acceptable(request, uri)
    if (!url) return answer(reply, 404, 'Not found.')
    if (url.searchParams.getAll('state').join() !== state)
      return answer(reply, 400, 'This response does not belong to the sign-in that is open. It was ignored.')
    const isRefused = url.searchParams.has('error')
    answer(reply, 200, isRefused ? REFUSED : 'Return to the terminal. You can close this window.')
    resolve(url)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`
  return {
    uri,
    response,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeIdleConnections()
    },
  }
}

const REFUSED = 'You are not signed in. The terminal shows the reason.'

/** The URL of a request that the issuer's redirect can have caused. Another `Host` is DNS rebinding. */
function acceptable({ method, url = '', headers }: IncomingMessage, uri: string): URL | undefined {
  const own = new URL(uri)
  const asked = URL.parse(url, uri)
  const isOwn = asked?.origin === own.origin && asked.pathname === own.pathname
  return asked && isOwn && method === 'GET' && headers.host === own.host ? asked : undefined
}

const answer = (reply: ServerResponse, status: number, text: string): void => {
  reply.writeHead(status, HEADERS).end(`${text}\n`)
}
