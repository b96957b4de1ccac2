import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { EgressDestination } from '../../contracts/egress.ts'
import { until } from '../helpers/until.ts'
import { egressAuthority, egressRoot, exchange, HOST, received, TERMINATED, tlsThrough } from './proxy-rig.ts'
import { httpsServer, rawTlsServer, requestText, terminatingRig } from './terminate-rig.ts'

describe('a new state', () => {
  const narrowed = async (
    { generation, apply }: Awaited<ReturnType<typeof terminatingRig>>,
    entry: Partial<EgressDestination>,
  ) => {
    const [destination] = generation().destinations
    await apply(generation({ destinations: [{ ...(destination as EgressDestination), ...entry }] }))
  }

  it('closes a request in the middle of its body whose method it does not allow', async () => {
    const { port, got, sockets } = await rawTlsServer(() => undefined)
    const rig = await terminatingRig(port)
    const socket = await rig.open()
    const { closed, text } = received(socket)
    socket.write(`POST /x HTTP/1.1\r\nHost: ${HOST}:${port}\r\nContent-Length: 1000\r\n\r\nsome`)
    await until('the server has the start', () => got().endsWith('some'))

    await narrowed(rig, { methods: ['GET'] })
    await closed

    expect(text()).toBe('')
    expect(rig.denied()).toMatchObject([{ rule: 'method', method: 'POST', path: '/x', host: HOST }])
    await until('the server sees the end', () => sockets[0]?.destroyed === true)
  })

  it('closes a response that is under way if it does not allow its path', async () => {
    const { port } = await rawTlsServer('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome')
    const rig = await terminatingRig(port)
    const socket = await rig.open()
    const { closed, text } = received(socket)
    socket.write(requestText(port))
    await until('the response has started', () => text().endsWith('some'))

    await narrowed(rig, { requests: [{ methods: ['GET'], paths: ['/y'] }] })
    await closed

    expect(rig.denied()).toMatchObject([{ rule: 'path' }])
  })

  it('judges the next request of a kept connection', async () => {
    const { port, seen } = await httpsServer()
    const rig = await terminatingRig(port)
    const socket = await rig.open()
    const { closed, text } = received(socket)
    socket.write(requestText(port).replace('close', 'keep-alive'))
    await until('the first response', () => text().includes('answer to GET /x'))

    await narrowed(rig, { requests: [{ methods: ['GET'], paths: ['/y'] }] })
    socket.write(requestText(port))
    await closed

    expect(text()).toMatch(/HTTP\/1\.1 403 /)
    expect(seen).toHaveLength(1)
  })

  it('closes idle connections to a host that it does not list, and of a run that it does not list', async () => {
    const { port } = await httpsServer()
    const rig = await terminatingRig(port)
    const first = received(await rig.open())
    await narrowed(rig, { host: 'elsewhere.agentweaver-test.com' })
    await first.closed
    await rig.apply(rig.generation())
    const second = received(await rig.open())

    await rig.apply()

    await second.closed
  })

  it('closes a tunnel that passes TLS on unread if the proxy must read it', async () => {
    const { port } = await httpsServer()
    const rig = await terminatingRig(port, { entry: { authority: undefined } })
    const socket = await tlsThrough(rig.socketPath, rig.target, { servername: HOST })
    const { closed } = received(socket)

    await narrowed(rig, TERMINATED)
    await closed

    expect(rig.denied()).toMatchObject([{ rule: 'request' }])
  })

  it('closes a websocket whose permission is gone', async () => {
    const { port } = await rawTlsServer(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n',
    )
    const rig = await terminatingRig(port, { entry: { upgrade: 'websocket' } })
    const socket = await rig.open()
    const { closed, text } = received(socket)
    socket.write(
      requestText(
        port,
        'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
      ).replace('close', 'Upgrade'),
    )
    await until('it is open', () => text().includes('101'))

    await narrowed(rig, { upgrade: undefined })
    await closed

    expect(rig.denied()).toMatchObject([{ rule: 'request' }])
  })

  it('refuses a host whose authority it does not contain', async () => {
    const { port } = await httpsServer()
    const rig = await terminatingRig(port, { entry: { authority: 'unsigned' } })

    const answer = await exchange(rig.socketPath, `CONNECT ${rig.target} HTTP/1.1\r\n\r\n`)

    expect(answer).toMatch(/^HTTP\/1\.1 503 [\s\S]*no certificate/)
    expect(rig.denied()).toMatchObject([{ rule: 'proxy-unavailable' }])
  })
})

describe('limits of connections that the proxy reads', () => {
  it('do not end a response that lasts longer than the longest pause', async () => {
    const idleMs = 2000
    const { port } = await rawTlsServer((socket) => {
      let sent = 0
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      const timer = setInterval(() => {
        sent += 50
        socket.write('1\r\na\r\n')
        if (sent < idleMs * 1.3) return
        clearInterval(timer)
        socket.write('0\r\n\r\n')
      }, 50)
      socket.on('close', () => clearInterval(timer))
    })
    const { send } = await terminatingRig(port, { limits: { idleMs } })

    expect(await send(requestText(port))).toMatch(/0\r\n\r\n$/)
  })

  it('end one whose header is never complete', async () => {
    const { port } = await httpsServer()
    const { open } = await terminatingRig(port, { limits: { headerMs: 100 } })
    const socket = await open()
    const { closed } = received(socket)

    socket.write('GET / HTTP/1.1\r\nHost: ')

    await closed
  })

  it('end one with too many requests that wait for a response', async () => {
    const { port, sockets } = await rawTlsServer(() => undefined)
    const { open } = await terminatingRig(port)
    const socket = await open()
    const { closed } = received(socket)

    socket.write(requestText(port).replace('close', 'keep-alive').repeat(17))

    await closed
    expect(sockets.length).toBeLessThanOrEqual(1)
  })
})

describe('the key of an authority', () => {
  const SERVER = fileURLToPath(new URL('../../runtime/egress/server.ts', import.meta.url))
  const [, secret = ''] = egressAuthority.key.split('\n')

  /** The process of a laptop. Returns all that it has written. */
  function start() {
    const folder = mkdtempSync(join(tmpdir(), 'aw-egress-'))
    const child = spawn(process.execPath, [SERVER], { stdio: 'pipe' })
    onTestFinished(() => {
      child.kill('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    })
    let written = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        written += chunk
      })
    return { child, socketPath: join(folder, 'socket'), written: () => written }
  }

  const stateOf = (socketPath: string, change = {}) => ({
    revision: 1,
    generations: [
      {
        runId: 'run',
        generation: 1,
        phase: 'work',
        socketPath,
        destinations: [
          {
            host: HOST,
            ports: [443],
            phases: ['work'],
            caller: 'any',
            addresses: ['127.0.0.1'],
            ...TERMINATED,
          },
        ],
      },
    ],
    authorities: [{ ...egressAuthority, ...change }],
  })

  it('is in no report', async () => {
    const { child, socketPath, written } = start()
    child.stdin.write(`${JSON.stringify(stateOf(socketPath))}\n`)
    await until('the state is applied', () => written().includes('applied'))

    await exchange(socketPath, 'CONNECT other.example.com:443 HTTP/1.1\r\n\r\n')
    const socket = await tlsThrough(socketPath, `${HOST}:443`, {
      servername: HOST,
      ca: egressRoot.certificate,
    })
    const { closed } = received(socket)
    socket.write(`PUT / HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`)
    await closed
    child.stdin.write(`${JSON.stringify({ revision: 2, generations: [] })}\n`)
    await until('the second state is applied', () => written().includes('"revision":2'))

    expect(written()).toContain('"rule":"method"')
    expect(written()).not.toContain(secret)
  })

  it.each([
    ['is cut off', (line: string) => line.slice(0, -200)],
    ['starts with the key', () => `${secret}`],
    ['has a key of another type', () => JSON.stringify(stateOf('/x', { key: [egressAuthority.key] }))],
    ['has an unknown field', () => JSON.stringify(stateOf('/x', { [secret]: secret }))],
  ])('is in no error if the state %s', async (_what, change) => {
    const { child, socketPath, written } = start()

    child.stdin.write(`${change(JSON.stringify(stateOf(socketPath)))}\n`)
    const [code] = await once(child, 'close')

    expect(code).toBe(1)
    expect(written()).toContain('cannot read')
    expect(written()).not.toContain(secret)
  })
})
