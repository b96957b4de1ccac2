import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { AgentRelay, type AgentRelayOptions } from '../../runtime/agent-host/egress/agent-relay.ts'
import type { ModelWait } from '../../runtime/agents/model-waits.ts'
import { silentLog } from '../../runtime/kit/log.ts'

const OPENED = 'HTTP/1.1 200 OK\r\n\r\n'

/** A proxy that notes who asks for what, and answers every tunnel itself. */
async function startProxy(answer = OPENED, first: string[] = []) {
  const asked: (readonly [string | undefined, string | undefined])[] = []
  const server = createServer()
  server.on('connect', (request, socket: Socket) => {
    asked.push([request.url, request.headers['proxy-authorization']])
    socket.on('error', () => undefined)
    const busy = first.shift()
    socket.write(busy ?? answer)
    if (busy === undefined) socket.on('data', (bytes) => socket.write(`echo ${bytes}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    asked,
    url: new URL(`http://127.0.0.1:${port}`),
    start: () => void server.listen(port, '127.0.0.1'),
    stop: () => once(server.close(), 'close'),
  }
}

/** Each closes a connection to the relay. */
const leavers: (() => void)[] = []

async function startRelay(
  proxy: URL,
  tokens: string[] = ['token-1'],
  options: Partial<AgentRelayOptions> = {},
) {
  const relay = new AgentRelay({
    proxy,
    fetchToken: async () => tokens.shift() ?? 'none',
    onWait: () => () => undefined,
    log: silentLog,
    ...options,
  })
  await relay.listen()
  onTestFinished(() => relay.close())
  const { port, username, password } = new URL(relay.url)
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const ask = async (line: string, header?: string) => {
    const socket = connect(Number(port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    leavers.push(() => socket.destroy())
    socket.on('error', () => undefined)
    socket.write(
      `${line}\r\nHost: x\r\n${header === undefined ? '' : `Proxy-Authorization: ${header}\r\n`}\r\n`,
    )
    const [head] = (await once(socket, 'data')) as [Buffer]
    return { socket, head: head.toString('latin1') }
  }
  return { relay, authorization, ask }
}

it('opens tunnels with the newest token of the sandbox, and does not pass its own password on', async () => {
  const proxy = await startProxy()
  const { ask, authorization } = await startRelay(proxy.url, ['token-1', 'token-2'])

  const { socket, head } = await ask('CONNECT api.github.com:443 HTTP/1.1', authorization)
  socket.write('hello')
  const [echo] = (await once(socket, 'data')) as [Buffer]
  await ask('CONNECT api.github.com:443 HTTP/1.1', authorization)

  expect(head).toBe('HTTP/1.1 200 OK\r\n\r\n')
  expect(echo.toString()).toBe('echo hello')
  expect(proxy.asked).toEqual([
    ['api.github.com:443', 'Bearer token-1'],
    ['api.github.com:443', 'Bearer token-2'],
  ])
})

it('opens nothing for a program without the password, as the commands of a pod are', async () => {
  const proxy = await startProxy()
  const { ask, authorization } = await startRelay(proxy.url)
  const wrong = `Basic ${Buffer.from('agent:wrong').toString('base64')}`

  const answers = [
    await ask('CONNECT api.github.com:443 HTTP/1.1'),
    await ask('CONNECT api.github.com:443 HTTP/1.1', wrong),
    await ask('CONNECT api.github.com:443 HTTP/1.1', authorization.slice(0, -1)),
  ]

  expect(answers.map(({ head }) => head.split('\r\n')[0])).toEqual(
    Array(3).fill('HTTP/1.1 407 Proxy Authentication Required'),
  )
  expect(proxy.asked).toEqual([])
  // Control: the same request with the password.
  expect((await ask('CONNECT api.github.com:443 HTTP/1.1', authorization)).head).toContain('200 OK')
})

it.each([
  ['a request without a tunnel', 'GET http://api.github.com/ HTTP/1.1', 'HTTP/1.1 405'],
  ['a target that is no host and port', 'CONNECT api.github.com HTTP/1.1', 'HTTP/1.1 400'],
])('refuses %s', async (_what, line, status) => {
  const proxy = await startProxy()
  const { ask, authorization } = await startRelay(proxy.url)

  expect((await ask(line, authorization)).head).toContain(status)
  expect(proxy.asked).toEqual([])
})

it('passes a refusal of the proxy on unchanged', async () => {
  const refusal = 'HTTP/1.1 403 Forbidden\r\nagentweaver-egress: not listed\r\n\r\n'
  const proxy = await startProxy(refusal)
  const { ask, authorization } = await startRelay(proxy.url)

  expect((await ask('CONNECT a.example:443 HTTP/1.1', authorization)).head).toBe(refusal)
})

it('waits for a proxy that cannot be reached', async () => {
  const gone = await startProxy()
  await gone.stop()
  const waits: ModelWait[] = []
  const { ask, authorization } = await startRelay(gone.url, ['1', '2'], {
    onWait: (wait) => {
      waits.push(wait)
      return gone.start
    },
  })

  const { head } = await ask('CONNECT a.example:443 HTTP/1.1', authorization)

  expect(head).toBe(OPENED)
  expect(waits).toMatchObject([{ reason: 'no connection to the egress proxy could be opened.' }])
})

it('returns 502 if it gets no token', async () => {
  const proxy = await startProxy()
  const { ask, authorization } = await startRelay(proxy.url, [], {
    fetchToken: () => Promise.reject(new Error('no token')),
  })

  expect((await ask('CONNECT a.example:443 HTTP/1.1', authorization)).head).toContain('502')
})

it('ends all tunnels when it is closed', async () => {
  const proxy = await startProxy()
  const { relay, ask, authorization } = await startRelay(proxy.url)

  const { socket } = await ask('CONNECT a.example:443 HTTP/1.1', authorization)
  relay.close()
  await once(socket, 'close')
})

const BUSY = (seconds: number) =>
  `HTTP/1.1 503 Service Unavailable\r\nagentweaver-egress: no lease\r\nretry-after: ${seconds}\r\n\r\nno lease\n`

it('waits for a proxy without a lease, with a new token for each attempt', async () => {
  const proxy = await startProxy(OPENED, [BUSY(0), BUSY(0)])
  const waits: ModelWait[] = []
  const { ask, authorization } = await startRelay(proxy.url, ['1', '2', '3'], {
    onWait: (wait) => {
      waits.push(wait)
      return () => undefined
    },
  })

  const { socket, head } = await ask('CONNECT api.github.com:443 HTTP/1.1', authorization)
  socket.write('hello')
  const [echo] = (await once(socket, 'data')) as [Buffer]

  expect(head).toBe(OPENED)
  expect(echo.toString()).toBe('echo hello')
  expect(proxy.asked.map(([, token]) => token)).toEqual(['Bearer 1', 'Bearer 2', 'Bearer 3'])
  expect(waits).toEqual(
    [false, true].map((isRepeated) => ({ isFrozen: false, reason: 'no lease', isRepeated })),
  )
})

it('stops waiting when the program leaves, and returns a response without Retry-After at once', async () => {
  const proxy = await startProxy('HTTP/1.1 503 Service Unavailable\r\n\r\n', [BUSY(100)])
  const started = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const { ask, authorization } = await startRelay(proxy.url, [], {
    onWait: () => {
      started.resolve()
      return ended.resolve
    },
  })
  const waiting = ask('CONNECT api.github.com:443 HTTP/1.1', authorization).catch(() => undefined)
  await started.promise

  // The wait ends before its time.
  const before = performance.now()
  for (const leave of leavers.splice(0)) leave()
  await ended.promise
  expect(performance.now() - before).toBeLessThan(60_000)

  const { head } = await ask('CONNECT api.github.com:443 HTTP/1.1', authorization)
  expect(head).toMatch(/^HTTP\/1\.1 503 /)
  expect(proxy.asked).toHaveLength(2)
  void waiting
})
