import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'

/** A program that listens in place of a service and records every byte that it receives. */
export interface Eavesdropper extends AsyncDisposable {
  readonly port: number
  readonly url: string
  readonly connections: () => number
  /** Everything that it received, as text. */
  readonly heard: () => string
}

/** Forms in which a key could be sent: plain, base64, base64url, hexadecimal, URL-encoded. */
export function hasHeard({ heard }: Pick<Eavesdropper, 'heard'>, key: string): boolean {
  const bytes = Buffer.from(key)
  const unpadded = (text: string) => text.replace(/=+$/, '').slice(0, -1)
  const forms = [
    key,
    key.replace(/^awk_/, ''),
    encodeURIComponent(key),
    unpadded(bytes.toString('base64')),
    unpadded(bytes.toString('base64url')),
    bytes.toString('hex'),
  ]
  const text = heard()
  return /authorization/i.test(text) || forms.some((form) => text.includes(form))
}

/** An empty list, and the caller. */
const ANSWER = JSON.stringify({ items: [], owner: 'ada', role: 'user' })

/** Listens on a port or a Unix socket, and replies like a healthy service. */
export async function eavesdrop(
  place: { readonly path?: string; readonly port?: number } = {},
): Promise<Eavesdropper> {
  let heard = ''
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.on('error', () => undefined)
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      heard += chunk
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${ANSWER.length}`
      socket.end(`${head}\r\n\r\n${ANSWER}`)
    })
  })
  if (place.path === undefined) server.listen(place.port ?? 0, '127.0.0.1')
  else server.listen(place.path)
  await once(server, 'listening')
  const port = portOf(server)
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    connections: () => connections,
    heard: () => heard,
    [Symbol.asyncDispose]: async () => void server.close(),
  }
}

function portOf(server: Server): number {
  const address = server.address() as AddressInfo | string
  return typeof address === 'string' ? 0 : address.port
}
