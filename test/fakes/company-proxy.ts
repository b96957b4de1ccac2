import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

export interface CompanyProxy {
  readonly port: number
  /** The targets of all requests, in order. */
  readonly asked: string[]
  close(): void
}

interface Options {
  /** The address of a name, or undefined: then the proxy refuses the request. */
  readonly resolve: (host: string) => string | undefined
  readonly at?: { readonly address: string; readonly port: number }
  /** Sent in response to every request, before the connection is closed. */
  readonly answer?: string
  readonly onAsked?: (target: string) => void
}

const REFUSED = 'HTTP/1.1 403 Forbidden\r\n\r\n'

/** The proxy of a company: it passes on CONNECT, and resolves the names itself. */
export async function startCompanyProxy({
  resolve,
  at = { address: '127.0.0.1', port: 0 },
  answer,
  onAsked,
}: Options): Promise<CompanyProxy> {
  const asked: string[] = []
  const server = createServer()
  server.on('connect', ({ url = '' }, client: Socket) => {
    asked.push(url)
    onAsked?.(url)
    client.on('error', () => client.destroy())
    const [host = '', port = ''] = url.split(':')
    const address = resolve(host)
    if (answer !== undefined || address === undefined) {
      client.end(answer ?? REFUSED)
      return
    }
    const target = connect(Number(port), address, () => {
      client.write('HTTP/1.1 200 Connection established\r\nVia: company\r\n\r\n')
      client.pipe(target).pipe(client)
    })
    target.on('error', () => client.destroy())
  })
  server.listen(at.port, at.address)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    asked,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
