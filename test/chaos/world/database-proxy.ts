import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'
import { delay } from '../../../runtime/kit/deadline.ts'

type CommitFault = {
  readonly when: 'before' | 'after'
  readonly strike: () => void
  /** Commits until then. */
  left: number
}

const COMMIT = Buffer.from('commit\0')

/**
 * A TCP proxy to PostgreSQL on a Unix socket. It can refuse connections, go silent, be slow, and strike at a commit,
 * because it sees each one.
 */
export async function startDatabaseProxy(url: string) {
  const socketFolder = new URL(url).searchParams.get('host')
  const sockets = new Set<Socket>()
  let delayMs = 0
  let fault: CommitFault | undefined

  /** True if the message must not be forwarded. */
  function strikesBefore(chunk: Buffer): boolean {
    if (!fault || !chunk.includes(COMMIT)) return false
    fault.left -= 1
    if (fault.left > 0 || fault.when === 'after') return false
    const { strike } = fault
    fault = undefined
    strike()
    return true
  }

  function strikesAfter(): boolean {
    if (fault?.when !== 'after' || fault.left > 0) return false
    const { strike } = fault
    fault = undefined
    strike()
    return true
  }

  const server = createServer((client) => {
    const upstream = createConnection(`${socketFolder}/.s.PGSQL.5432`)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', (chunk: Buffer) => {
      if (!strikesBefore(chunk)) upstream.write(chunk)
    })
    let sending = Promise.resolve()
    upstream.on('data', (chunk: Buffer) => {
      if (strikesAfter()) return
      if (delayMs === 0) return void client.write(chunk)
      // In order, also after the delay has ended.
      sending = sending.then(() => delay(delayMs)).then(() => void client.write(chunk))
    })
  })
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const through = new URL(url)
  through.searchParams.delete('host')
  through.hostname = '127.0.0.1'
  through.port = String(port)
  let isOpen = true

  const refuse = async () => {
    if (!isOpen) return
    isOpen = false
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  return {
    url: through.href,
    refuse,
    async accept(): Promise<void> {
      if (isOpen) return
      isOpen = true
      await listen(port)
    },
    /** Keeps the open connections open, and forwards nothing on them any more. */
    silence: () => {
      for (const socket of sockets) socket.pause()
    },
    slowDown: (ms: number) => {
      delayMs = ms
    },
    /** The return value takes the fault back, unless it has struck. */
    strikeAtCommit: (next: CommitFault) => {
      fault = next
      return () => {
        if (fault === next) fault = undefined
      }
    },
    /** Ends every fault. Silent connections stay silent, as in a failover. */
    async heal(): Promise<void> {
      delayMs = 0
      fault = undefined
      await this.accept()
    },
    close: refuse,
  }
}

export type DatabaseProxy = Awaited<ReturnType<typeof startDatabaseProxy>>
