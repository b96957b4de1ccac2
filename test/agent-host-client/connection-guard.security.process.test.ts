import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net'
import { Client } from 'undici'
import { expect, it, onTestFinished } from 'vitest'
import { connectAgentHost } from '../../runtime/agent-host-client/connection.ts'
import type { ConnectionGuard } from '../../runtime/agent-host-client/connection-guard.ts'
import { clientOn, prepareConnections } from '../../runtime/agent-host-client/verified-connections.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { present } from '../../runtime/kit/present.ts'
import { until } from '../helpers/until.ts'

const BEARER = 'the-bearer-of-the-run'
const answer = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`

/** A server that sends the given replies and records the data of each connection. */
async function aListener(reply: (path: string, socket: Socket) => string) {
  const heard: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const index = heard.push('') - 1
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      heard[index] += chunk.toString('latin1')
      const path = /^[A-Z]+ (\S+)/.exec(chunk.toString('latin1'))?.[1] ?? ''
      socket.write(reply(path, socket))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return { heard, cut, baseUrl: `http://127.0.0.1:${port}` }
}

/** Accepts one identity, as the real guard does after it has verified the token. */
const trusting = (identity: string): ConnectionGuard => ({
  verify: async (connection) => {
    const { body } = await connection.get('/identity')
    if (body !== identity) throw new SandboxError('identity_mismatch', `this is ${body}`)
  },
})

function connect(baseUrl: string, guard: ConnectionGuard, ahead?: number) {
  const prepared = ahead === undefined ? undefined : prepareConnections(baseUrl, guard, ahead)
  const connection = connectAgentHost({ baseUrl, guard, ...present({ prepared }) }, BEARER)
  onTestFinished(() => connection.close())
  return connection
}

/** The sockets that this process opens from now on, from Node's diagnostics channel. */
function openedFromHere(): readonly Socket[] {
  const opened: Socket[] = []
  const note = (message: unknown) => void opened.push((message as { socket: Socket }).socket)
  subscribe('net.client.socket', note)
  onTestFinished(() => void unsubscribe('net.client.socket', note))
  return opened
}

it('asks for the identity on every new connection before it sends anything else', async () => {
  const { heard, cut, baseUrl } = await aListener((path) => answer(path === '/identity' ? 'pod-1' : 'ok'))
  const connection = connect(baseUrl, trusting('pod-1'))

  const first = await connection.request('/healthz')
  const again = await connection.request('/healthz')
  await Promise.all([first.text(), again.text()])
  cut()
  await connection.request('/events').catch(() => connection.request('/events'))

  expect(heard.length).toBeGreaterThan(1)
  for (const said of heard)
    expect(said).toMatch(
      /^GET \/identity HTTP\/1\.1\r\nhost: agent-host\r\nconnection: keep-alive\r\n\r\nGET /,
    )
})

it('sends nothing to a server that is not the pod, and fails with the error of the guard', async () => {
  const { heard, baseUrl } = await aListener(() => answer('somebody else'))
  const connection = connect(baseUrl, trusting('pod-1'))

  const sent = connection.request('/configure', { method: 'POST', body: 'the configuration' })

  await expect(sent).rejects.toMatchObject({ code: 'identity_mismatch', message: 'this is somebody else' })
  expect(heard).toEqual(['GET /identity HTTP/1.1\r\nhost: agent-host\r\nconnection: keep-alive\r\n\r\n'])
})

it('detects that another pod has the address when it opens a new connection', async () => {
  let identity = 'pod-1'
  const { heard, cut, baseUrl } = await aListener((path) => answer(path === '/identity' ? identity : 'ok'))
  const connection = connect(baseUrl, trusting('pod-1'))
  await (await connection.request('/events')).text()

  identity = 'pod-2'
  cut()
  const refusal = async () => {
    await connection.request('/events').catch((error: SandboxError) => {
      if (error.code !== 'sandbox_lost') throw error
    })
    await connection.request('/events')
  }

  await expect(refusal()).rejects.toMatchObject({ code: 'identity_mismatch' })
  expect(heard.slice(1).join()).not.toContain(BEARER)
})

it('accepts an identity that arrives in pieces', async () => {
  const whole = answer('pod-1')
  const { baseUrl } = await aListener((path, socket) => {
    if (path !== '/identity') return answer('ok')
    for (const byte of whole) socket.write(byte)
    return ''
  })

  const response = await connect(baseUrl, trusting('pod-1')).request('/events')

  expect(await response.text()).toBe('ok')
})

it.each([
  ['is not HTTP', 'SSH-2.0-OpenSSH\r\n\r\n'],
  ['says no length', 'HTTP/1.1 200 OK\r\n\r\npod-1'],
  ['says its length twice', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\npod-1'],
  ['is chunked', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\npod-1'],
  ['folds a header', 'HTTP/1.1 200 OK\r\nx: a\r\n content-length: 9\r\ncontent-length: 5\r\n\r\npod-1'],
  ['has an answer behind it', `${answer('pod-1')}${answer('forged')}`],
  ['has no end', `HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n${'x'.repeat(20_000)}`],
  ['has endless headers', `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(20_000)}`],
])('refuses an identity that %s', async (_what, raw) => {
  const { heard, baseUrl } = await aListener(() => raw)

  const sent = connect(baseUrl, trusting('pod-1')).request('/events')

  await expect(sent).rejects.toMatchObject({ code: 'identity_mismatch' })
  expect(heard.join()).not.toContain(BEARER)
})

it.each([
  ['is reset', (socket: Socket) => socket.resetAndDestroy()],
  ['ends', (socket: Socket) => socket.end()],
])(
  'takes a connection that %s during the identity check for a broken one, and not for another pod',
  async (_what, spoil) => {
    const { heard, baseUrl } = await aListener((_path, socket) => {
      spoil(socket)
      return ''
    })

    const sent = connect(baseUrl, trusting('pod-1')).request('/events')

    await expect(sent).rejects.toMatchObject({ code: 'sandbox_lost' })
    expect(heard.join()).not.toContain(BEARER)
  },
)

it('stops waiting for an identity after a timeout', async () => {
  const { baseUrl } = await aListener(() => '')

  const sent = connect(baseUrl, trusting('pod-1')).request('/events')

  await expect(sent).rejects.toMatchObject({ code: 'deadline_exceeded' })
})

it('follows no redirect with a configuration', async () => {
  const other = await aListener(() => answer('ok'))
  const { heard, baseUrl } = await aListener((path) =>
    path === '/identity'
      ? answer('pod-1')
      : `HTTP/1.1 307 Temporary Redirect\r\nlocation: ${other.baseUrl}/x\r\ncontent-length: 0\r\n\r\n`,
  )
  const connection = connect(baseUrl, trusting('pod-1'))

  const sent = connection.request('/configure', { method: 'POST', body: 'the configuration' })

  await expect(sent).rejects.toMatchObject({ code: 'sandbox_lost' })
  expect(heard.join()).toContain('the configuration')
  expect(other.heard).toEqual([])
})

const QUESTION = 'GET /identity HTTP/1.1\r\nhost: agent-host\r\nconnection: keep-alive\r\n\r\n'

it('sends only the identity request on prepared connections, and uses them first', async () => {
  const { heard, baseUrl } = await aListener((path) => answer(path === '/identity' ? 'pod-1' : 'ok'))
  const connection = connect(baseUrl, trusting('pod-1'), 2)
  await expect.poll(() => heard).toEqual([QUESTION, QUESTION])
  const sent = [connection.request('/healthz'), connection.request('/configure', { method: 'POST' })]
  for (const response of await Promise.all(sent)) await response.text()

  expect(heard.map((said) => said.split(QUESTION).length)).toEqual([2, 2])
  expect(heard.join()).toMatch(/GET \/healthz/)
  expect(heard.join()).toMatch(/POST \/configure/)
})

it('fails a request whose prepared connection was rejected, and does not send it', async () => {
  const { heard, baseUrl } = await aListener(() => answer('somebody else'))
  const connection = connect(baseUrl, trusting('pod-1'), 1)
  await expect.poll(() => heard).toEqual([QUESTION])
  const sent = connection.request('/configure', { method: 'POST', body: 'the configuration' })

  await expect(sent).rejects.toMatchObject({ code: 'identity_mismatch', message: 'this is somebody else' })
  expect(heard).toEqual([QUESTION])
})

it('replaces a prepared connection that closed or received unsolicited data', async () => {
  for (const spoil of [
    (socket: Socket) => socket.destroy(),
    (socket: Socket) => socket.write(answer('forged')),
  ]) {
    const taken: Socket[] = []
    const { heard, baseUrl } = await aListener((path, socket) => {
      taken.push(socket)
      return answer(path === '/identity' ? 'pod-1' : 'ok')
    })
    const opened = openedFromHere()
    const guard = trusting('pod-1')
    const prepared = prepareConnections(baseUrl, guard, 1)
    const connection = connectAgentHost({ baseUrl, guard, prepared }, BEARER)
    onTestFinished(() => connection.close())
    await prepared.settled

    const [[there], [here]] = [taken, opened]
    if (there) spoil(there)
    await until('it is seen here', () => here?.destroyed === true)
    const response = await connection.request('/events')

    expect(await response.text()).toBe('ok')
    expect(heard).toHaveLength(2)
    expect(heard[0]).toBe(QUESTION)
    expect(heard[1]).toMatch(
      /^GET \/identity HTTP\/1\.1\r\nhost: agent-host\r\nconnection: keep-alive\r\n\r\nGET \/events/,
    )
  }
})

it('closes prepared connections that no request has used', async () => {
  const ended = Promise.withResolvers<void>()
  const { heard, baseUrl } = await aListener((_path, socket) => {
    socket.once('close', () => ended.resolve())
    return answer('pod-1')
  })
  const connection = connect(baseUrl, trusting('pod-1'), 1)
  await expect.poll(() => heard).toEqual([QUESTION])

  await connection.close()

  await ended.promise
})

it('does not connect again after its socket has closed, as an ordinary client does', async () => {
  for (const isOrdinary of [true, false]) {
    const { heard, cut, baseUrl } = await aListener(() => answer('ok'))
    const socket = dial(Number(new URL(baseUrl).port), '127.0.0.1')
    await once(socket, 'connect')
    const client = isOrdinary ? new Client(baseUrl) : clientOn(socket, baseUrl)
    onTestFinished(() => client.destroy())
    await (await client.request({ path: '/', method: 'GET' })).body.dump()
    cut()
    await until('the client notices', () => !client.stats.connected)

    const again = client.request({ path: '/', method: 'GET' })

    if (isOrdinary) expect((await again).statusCode).toBe(200)
    else await expect(again).rejects.toMatchObject({ code: 'ECONNRESET' })
    const requests = heard.filter((said) => said.includes('GET /'))
    expect(requests).toHaveLength(isOrdinary ? 2 : 1)
  }
})

/** A real HTTP server that returns the length of each body, and streams `/events` until the reader leaves. */
async function aPod() {
  let connections = 0
  const questions: string[] = []
  const left = Promise.withResolvers<void>()
  const server = createHttpServer((request, response) => {
    if (request.url === '/identity') {
      questions.push(String(request.socket.remotePort))
      response.setHeader('content-length', 5).end('pod-1')
    } else if (request.url === '/events') {
      response.once('close', () => left.resolve()).write('data: 1\n\n')
    } else if (request.url === '/empty') response.end()
    else {
      let bytes = 0
      request.on('data', (piece: Buffer) => {
        bytes += piece.length
      })
      request.on('end', () => response.end(String(bytes)))
    }
  })
  server.on('connection', () => {
    connections += 1
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { baseUrl, questions, left: left.promise, connections: () => connections }
}

it('serves a stream and other requests at the same time, each on a separate connection', async () => {
  const { baseUrl, questions, left, connections } = await aPod()
  const connection = connect(baseUrl, trusting('pod-1'))
  const reader = new AbortController()
  const stream = await connection.request('/events', { signal: reader.signal })
  const first = await stream.body?.getReader().read()

  const sizes: string[] = []
  for (const size of [0, 1, 50_000_000]) {
    const body = Buffer.alloc(size)
    sizes.push(await (await connection.request('/', { method: 'PUT', body })).text())
  }
  const empty = await (await connection.request('/empty')).text()
  reader.abort()
  await left

  expect(Buffer.from(first?.value ?? []).toString()).toBe('data: 1\n\n')
  expect(sizes).toEqual(['0', '1', '50000000'])
  expect(empty).toBe('')
  expect(connections()).toBe(2)
  expect(questions).toHaveLength(2)
})

it('uploads a stream of unknown length, and closes its connection when the upload is aborted', async () => {
  const { baseUrl, connections } = await aPod()
  const connection = connect(baseUrl, trusting('pod-1'))
  async function* pieces(count: number, after?: () => void) {
    for (let at = 0; at < count; at++) yield Buffer.alloc(65_536)
    after?.()
    if (after) await new Promise(() => undefined)
  }
  const upload = (body: AsyncIterable<Uint8Array>, signal?: AbortSignal) =>
    connection.request('/', { method: 'PUT', body, duplex: 'half', ...present({ signal }) })
  const whole = await (await upload(pieces(100))).text()
  const given = new AbortController()

  const aborted = upload(
    pieces(10, () => given.abort(new Error('the caller left'))),
    given.signal,
  )

  await expect(aborted).rejects.toThrow('the caller left')
  expect(whole).toBe(String(100 * 65_536))
  expect(await (await upload(pieces(1))).text()).toBe('65536')
  expect(connections()).toBe(2)
})

it('fails the requests that wait for a connection when it is closed', async () => {
  const { heard, baseUrl } = await aListener(() => '')
  const connection = connect(baseUrl, trusting('pod-1'), 1)
  const waiting = [connection.request('/a'), connection.request('/b')].map((sent) =>
    sent.catch((error: unknown) => error),
  )
  await expect.poll(() => heard.length).toBe(2)

  await connection.close()

  for (const error of await Promise.all(waiting)) expect(error).toBeInstanceOf(SandboxError)
  expect(heard.join()).not.toContain(BEARER)
})
