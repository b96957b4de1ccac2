import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createConnection, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { ExecRequest } from '../../contracts/exec.ts'
import { DOOR_LIMITS, Door, isOwnAddress } from '../../runtime/agent-host/door.ts'
import { aConfiguredHost, BEARER, never } from '../conformance/agent-host-cases/host.ts'
import { until } from '../helpers/until.ts'
import { createLaptop, startOnPort } from './laptop-hosts.ts'

class Caller extends EventEmitter {
  readonly remoteAddress: string
  isOut = false
  constructor(remoteAddress: string) {
    super()
    this.remoteAddress = remoteAddress
  }
  destroy() {
    this.isOut = true
    this.emit('close')
  }
}

const callers = (count: number, address: string) => Array.from({ length: count }, () => new Caller(address))
const isOwn = (address: string) => address === 'own'

describe('the door of AgentHost', () => {
  it('lets the oldest without a credential go for the next, and keeps who has shown one', () => {
    const door = new Door({ limits: { strangers: 3, own: 1, known: 5 }, isOwn })
    const [api, ...others] = callers(9, 'far')
    if (!api) throw new Error('there is no caller')
    door.enter(api)
    door.know(api)

    for (const other of others) door.enter(other)

    expect(others.map(({ isOut }) => isOut)).toEqual([true, true, true, true, true, false, false, false])
    expect([api.isOut, door.size]).toEqual([false, 4])
  })

  it('lets a command of the pod push out commands of the pod alone', () => {
    const door = new Door({ limits: { strangers: 2, own: 2, known: 2 }, isOwn })
    const [api] = callers(1, 'far')
    const commands = callers(100, 'own')
    if (api) door.enter(api)

    for (const command of commands) door.enter(command)

    expect(api?.isOut).toBe(false)
    expect(commands.filter((command) => !command.isOut)).toHaveLength(2)
  })

  it('is bounded for callers with a credential too, and forgets who has left', () => {
    const door = new Door({ limits: { strangers: 2, own: 2, known: 2 }, isOwn })
    const known = callers(3, 'far')
    for (const caller of known) {
      door.enter(caller)
      door.know(caller)
    }
    expect(known.map(({ isOut }) => isOut)).toEqual([false, false, true])

    known[0]?.destroy()

    expect(door.size).toBe(1)
  })
})

describe('an address of this pod', () => {
  const own = Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? [])

  it.each([
    '127.0.0.1',
    '127.8.8.8',
    '::1',
    '::ffff:127.0.0.1',
    ...own,
    ...own.map((each) => `${each}%eth0`),
  ])('is %s', (address) => expect(isOwnAddress(address)).toBe(true))

  it.each(['10.255.255.254', '::ffff:10.255.255.254', 'fe80::dead:beef', '128.0.0.1', ''])(
    'is not "%s"',
    (address) => expect(isOwnAddress(address)).toBe(false),
  )
})

describe('an AgentHost under a flood of connections', () => {
  const laptop = createLaptop()
  afterAll(() => laptop.remove())
  const FLOOD = 1_500

  /** Opens them all, of which each begins a request and never ends it; answers those that are still open. */
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

  it('keeps its streams, serves who has the bearer, and holds no more than a few of the others', async () => {
    const subject = { start: () => startOnPort(laptop), keys: () => laptop.keys, hasIdentity: false }
    const { client, connect } = await aConfiguredHost(subject)
    const stream = await connect()
    stream.write(`GET /events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${BEARER}\r\n\r\n`)
    let said = ''
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8')
    })
    await until('the stream to begin', async () => said.startsWith('HTTP/1.1 200'))

    const open = await flood(connect)
    await client.startCommand('c1', ExecRequest.parse({ command: 'echo served' }), never)

    await until('the stream to go on', async () => said.includes('command.exited'))
    expect(said).toContain('served')
    await until('most of the flood to be gone', async () => open() <= DOOR_LIMITS.own)
  })

  it('would hold them all without its door', async () => {
    // As patient as a slow machine needs it.
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
