import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { connectAgentHost } from '../../runtime/agent-host-client/connection.ts'
import type { ConnectionGuard } from '../../runtime/agent-host-client/connection-guard.ts'
import { prepareConnections } from '../../runtime/agent-host-client/new-connection.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { present } from '../../runtime/kit/present.ts'
import { until } from '../helpers/until.ts'

const BEARER = 'the-bearer-of-the-run'
const answer = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`

/** A listener that answers what it is told, and keeps what every connection has said. */
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

/** Takes the one identity for the pod's, as the real guard does after it has verified the token. */
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

/** The sockets that this process opens from here on, by Node's own word. */
function openedFromHere(): readonly Socket[] {
  const opened: Socket[] = []
  const note = (message: unknown) => void opened.push((message as { socket: Socket }).socket)
  subscribe('net.client.socket', note)
  onTestFinished(() => void unsubscribe('net.client.socket', note))
  return opened
}

it('asks every new connection who it is before anything else', async () => {
  const { heard, cut, baseUrl } = await aListener((path) => answer(path === '/identity' ? 'pod-1' : 'ok'))
  const connection = connect(baseUrl, trusting('pod-1'))

  const first = await connection.request('/healthz')
  const again = await connection.request('/healthz')
  await Promise.all([first.text(), again.text()])
  cut()
  await connection.request('/events').catch(() => connection.request('/events'))

  expect(heard.length).toBeGreaterThan(1)
  for (const said of heard) expect(said).toMatch(/^GET \/identity HTTP\/1\.1\r\nhost: agent-host\r\n\r\nGET /)
})

it('sends nothing to a server that is not the pod, and reports the reason of the guard', async () => {
  const { heard, baseUrl } = await aListener(() => answer('somebody else'))
  const connection = connect(baseUrl, trusting('pod-1'))

  const sent = connection.request('/configure', { method: 'POST', body: 'the configuration' })

  await expect(sent).rejects.toMatchObject({ code: 'identity_mismatch', message: 'this is somebody else' })
  expect(heard).toEqual(['GET /identity HTTP/1.1\r\nhost: agent-host\r\n\r\n'])
})

it('notices that the address has another owner when it connects again', async () => {
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

it('takes an answer that comes in pieces', async () => {
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

it('does not wait for ever for an identity', async () => {
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

const QUESTION = 'GET /identity HTTP/1.1\r\nhost: agent-host\r\n\r\n'

it('opens connections ahead, says nothing on them but the question, and uses them first', async () => {
  const { heard, baseUrl } = await aListener((path) => answer(path === '/identity' ? 'pod-1' : 'ok'))
  const connection = connect(baseUrl, trusting('pod-1'), 2)
  await expect.poll(() => heard).toEqual([QUESTION, QUESTION])
  const sent = [connection.request('/healthz'), connection.request('/configure', { method: 'POST' })]
  for (const response of await Promise.all(sent)) await response.text()

  expect(heard.map((said) => said.split(QUESTION).length)).toEqual([2, 2])
  expect(heard.join()).toMatch(/GET \/healthz/)
  expect(heard.join()).toMatch(/POST \/configure/)
})

it('fails a request whose connection was refused ahead of it, and sends it nowhere', async () => {
  const { heard, baseUrl } = await aListener(() => answer('somebody else'))
  const connection = connect(baseUrl, trusting('pod-1'), 1)
  await expect.poll(() => heard).toEqual([QUESTION])
  const sent = connection.request('/configure', { method: 'POST', body: 'the configuration' })

  await expect(sent).rejects.toMatchObject({ code: 'identity_mismatch', message: 'this is somebody else' })
  expect(heard).toEqual([QUESTION])
})

it('asks again where a connection that was opened ahead has broken, or was spoken on unasked', async () => {
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
    await until('it is seen here', () => here?.readableEnded === true || (here?.readableLength ?? 0) > 0)
    const response = await connection.request('/events')

    expect(await response.text()).toBe('ok')
    expect(heard).toHaveLength(2)
    expect(heard[0]).toBe(QUESTION)
    expect(heard[1]).toMatch(/^GET \/identity HTTP\/1\.1\r\nhost: agent-host\r\n\r\nGET \/events/)
  }
})

it('ends connections that nothing has used', async () => {
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
