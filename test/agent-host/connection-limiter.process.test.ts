import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createConnection, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { ExecRequest } from '../../contracts/exec.ts'
import {
  CONNECTION_LIMITS,
  ConnectionLimiter,
  isLocalAddress,
} from '../../runtime/agent-host/connection-limiter.ts'
import { aConfiguredHost, BEARER, never } from '../conformance/agent-host-cases/host.ts'
import { until } from '../helpers/until.ts'
import { createLaptop, startOnPort } from './laptop-hosts.ts'

class FakeConnection extends EventEmitter {
  readonly remoteAddress: string
  isDestroyed = false
  constructor(remoteAddress: string) {
    super()
    this.remoteAddress = remoteAddress
  }
  destroy() {
    this.isDestroyed = true
    this.emit('close')
  }
}

const connections = (count: number, address: string) =>
  Array.from({ length: count }, () => new FakeConnection(address))
const isLocal = (address: string) => address === 'local'

describe('ConnectionLimiter', () => {
  it('closes the oldest unauthenticated connection at the limit and keeps authenticated ones', () => {
    const limiter = new ConnectionLimiter({
      limits: { unauthenticated: 3, local: 1, authenticated: 5 },
      isLocal,
    })
    const [api, ...others] = connections(9, 'remote')
    if (!api) throw new Error('no connection')
    limiter.accept(api)
    limiter.authenticate(api)

    for (const other of others) limiter.accept(other)

    expect(others.map(({ isDestroyed }) => isDestroyed)).toEqual([
      ...Array(5).fill(true),
      ...Array(3).fill(false),
    ])
    expect([api.isDestroyed, limiter.size]).toEqual([false, 4])
  })

  it('closes only local connections for another local connection', () => {
    const limiter = new ConnectionLimiter({
      limits: { unauthenticated: 2, local: 2, authenticated: 2 },
      isLocal,
    })
    const [api] = connections(1, 'remote')
    const local = connections(100, 'local')
    if (api) limiter.accept(api)

    for (const connection of local) limiter.accept(connection)

    expect(api?.isDestroyed).toBe(false)
    expect(local.filter(({ isDestroyed }) => !isDestroyed)).toHaveLength(2)
  })

  it('bounds authenticated connections too and forgets closed ones', () => {
    const limiter = new ConnectionLimiter({
      limits: { unauthenticated: 2, local: 2, authenticated: 2 },
      isLocal,
    })
    const authenticated = connections(3, 'remote')
    for (const connection of authenticated) {
      limiter.accept(connection)
      limiter.authenticate(connection)
    }
    expect(authenticated.map(({ isDestroyed }) => isDestroyed)).toEqual([false, false, true])

    authenticated[0]?.destroy()

    expect(limiter.size).toBe(1)
  })
})

describe('isLocalAddress', () => {
  const own = Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? [])

  it.each([
    '127.0.0.1',
    '127.8.8.8',
    '::1',
    '::ffff:127.0.0.1',
    ...own,
    ...own.map((each) => `${each}%eth0`),
  ])('returns true for %s', (address) => expect(isLocalAddress(address)).toBe(true))

  it.each(['10.255.255.254', '::ffff:10.255.255.254', 'fe80::dead:beef', '128.0.0.1', ''])(
    'returns false for "%s"',
    (address) => expect(isLocalAddress(address)).toBe(false),
  )
})

describe('AgentHost under a flood of connections', () => {
  const laptop = createLaptop()
  afterAll(() => laptop.remove())
  const FLOOD = 1_500

  /** Opens many connections, each with an unfinished request. Returns a function that counts the open ones. */
  async function flood(connect: () => Promise<Socket>): Promise<() => number> {
    const sockets: Socket[] = []
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    for (let sent = 0; sent < FLOOD; sent += 100) {
      const some = await Promise.all(Array.from({ length: 100 }, connect))
      for (const socket of some) socket.resume().write('GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ')
      sockets.push(...some)
    }
    return () => sockets.filter(({ closed }) => !closed).length
  }

  it('keeps its streams, serves the caller with the bearer token, and closes most of the other connections', async () => {
    const subject = { start: () => startOnPort(laptop), keys: () => laptop.keys, hasIdentity: false }
    const { client, connect } = await aConfiguredHost(subject)
    const stream = await connect()
    stream.write(`GET /events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${BEARER}\r\n\r\n`)
    let received = ''
    stream.on('data', (chunk: Buffer) => {
      received += chunk.toString('utf8')
    })
    await until('the stream to begin', async () => received.startsWith('HTTP/1.1 200'))

    const open = await flood(connect)
    await client.startCommand('c1', ExecRequest.parse({ command: 'echo served' }), never)

    await until('the stream to go on', async () => received.includes('command.exited'))
    expect(received).toContain('served')
    await until('most of the flood to be gone', async () => open() <= CONNECTION_LIMITS.local)
  })

  it('would keep all of them without the limiter', async () => {
    // No timeouts, so that a slow machine keeps every connection.
    const patience = { headersTimeout: 0, requestTimeout: 0 }
    const bare = createServer(patience, () => undefined).listen(0, '127.0.0.1')
    await once(bare, 'listening')
    onTestFinished(() => void bare.close().closeAllConnections())
    const { port } = bare.address() as AddressInfo

    const open = await flood(async () => {
      const socket = createConnection(port, '127.0.0.1')
      await once(socket, 'connect')
      return socket.on('error', () => undefined)
    })

    expect(open()).toBe(FLOOD)
  })
})
