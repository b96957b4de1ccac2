import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../helpers/until.ts'
import {
  exchange,
  HOST,
  listening,
  OTHER,
  portOf,
  proxyRig,
  rawServer,
  received,
  servers,
  tunnel,
} from './proxy-rig.ts'

describe('HTTP without TLS', () => {
  const absolute = (port: number, more = '', method = 'GET') =>
    `${method} http://${HOST}:${port}/x?y HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n${more}\r\n`
  const allowed = { http: 'allow', methods: ['GET', 'POST'] } as const

  it('is refused, unless the entry allows it', async () => {
    const { http, requests } = await servers()
    const closed = await proxyRig({ ports: [http] })
    const open = await proxyRig({ ports: [http], entry: { ...allowed, methods: [...allowed.methods] } })

    expect(await exchange(closed.socketPath, absolute(http))).toMatch(/^HTTP\/1\.1 403 /)
    expect(requests).toEqual([])
    expect(
      await exchange(open.socketPath, absolute(http, 'Proxy-Authorization: Basic eDp5\r\nX-A: b\r\n')),
    ).toMatch(/^HTTP\/1\.1 200 OK.*plain/s)
    expect(requests).toMatchObject([{ method: 'GET', url: '/x?y', headers: { 'x-a': 'b' } }])
    expect(requests[0]?.headers).not.toHaveProperty('proxy-authorization')
  })

  it('is judged in the same way inside a tunnel', async () => {
    const { http, requests } = await servers()
    const closed = await proxyRig({ ports: [http] })
    const open = await proxyRig({ ports: [http], entry: { ...allowed, methods: ['GET'] } })
    const send = async (socketPath: string, method: string) => {
      const socket = await tunnel(socketPath, `${HOST}:${http}`)
      const { closed: ended } = received(socket)
      socket.write(`${method} /x HTTP/1.1\r\nHost: ${HOST}:${http}\r\nConnection: close\r\n\r\n`)
      return (await ended).toString()
    }

    expect(await send(closed.socketPath, 'GET')).toMatch(/^HTTP\/1\.1 403 /)
    expect(await send(open.socketPath, 'DELETE')).toMatch(/^HTTP\/1\.1 405 /)
    expect(requests).toEqual([])
    expect(await send(open.socketPath, 'GET')).toMatch(/^HTTP\/1\.1 200 OK/)
    expect(requests).toHaveLength(1)
  })

  it('asks for a body only after the headers were judged', async () => {
    const { http, requests } = await servers()
    const { socketPath } = await proxyRig({ ports: [http], entry: { ...allowed, methods: ['POST'] } })
    const send = (method: string) =>
      exchange(socketPath, absolute(http, 'Expect: 100-continue\r\nContent-Length: 1\r\n', method), 'a')

    expect(await send('PUT')).toMatch(/^HTTP\/1\.1 405 /)
    expect(requests).toEqual([])
    expect(await send('POST')).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/)
  })

  it.each([
    ['a status line with a control character', 'HTTP/1.1 200 O\x01K\r\nContent-Length: 2\r\n\r\nok'],
    [
      'an upgrade without a request for one',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
    ],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok'],
    ['no HTTP', '\0\0\0\0'],
    [
      'a sentence of the proxy',
      'HTTP/1.1 403 Forbidden\r\nAgentweaver-Egress: do this\r\nContent-Length: 0\r\n\r\n',
    ],
  ])('survives a server that sends %s', async (_what, answer) => {
    const { port } = await rawServer(Buffer.from(answer, 'latin1'))
    const { socketPath } = await proxyRig({ ports: [port], entry: { ...allowed, methods: ['GET'] } })

    const first = await exchange(socketPath, absolute(port))
    const second = await exchange(socketPath, absolute(port))

    for (const text of [first, second]) {
      expect(text).toMatch(/^HTTP\/1\.1 (?:200|403|502) /)
      expect(text).not.toContain('do this')
    }
  })

  it('survives clients that leave while they are refused an upgrade', async () => {
    const { http } = await servers()
    const { socketPath } = await proxyRig({ ports: [http], entry: { ...allowed, methods: ['GET'] } })
    const upgrade = absolute(http, 'Upgrade: x\r\n').replace('close', 'upgrade')

    for (let count = 0; count < 50; count += 1) {
      const socket = connect(socketPath)
      await once(socket, 'connect')
      socket.write(upgrade)
      socket.destroy()
    }

    expect(await exchange(socketPath, absolute(http))).toMatch(/^HTTP\/1\.1 200 OK/)
  })

  it.each([
    ['a tunnel', (target: string) => `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`],
    [
      'a websocket',
      (target: string) =>
        `GET http://${target}/ HTTP/1.1\r\nHost: ${target}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    ],
  ])('opens %s only on a connection without a response that is still to come', async (_what, second) => {
    const { http } = await servers()
    const asked: Socket[] = []
    const slow = await listening(createServer((socket) => socket.once('data', () => asked.push(socket))))
    const ports = [portOf(slow), http]
    const { socketPath } = await proxyRig({ ports, entry: { ...allowed, methods: ['GET'] } })
    const first = `GET http://${HOST}:${portOf(slow)}/ HTTP/1.1\r\nHost: ${HOST}:${portOf(slow)}\r\n\r\n`
    const start = async () => {
      const socket = connect(socketPath)
      const client = { socket, ...received(socket) }
      const before = asked.length
      socket.write(first)
      await until('the server has the request', () => asked.length > before)
      return client
    }
    const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow'

    const { socket, text } = await start()
    socket.write(second(`${HOST}:${http}`))
    await until('the proxy has reacted', () => socket.closed || text() !== '')
    expect(text()).toBe('')

    // The control: the same request after the response.
    const patient = await start()
    asked.at(-1)?.end(answer)
    await until('the response has come', () => patient.text().endsWith('slow'))
    patient.socket.write(second(`${HOST}:${http}`))
    await until('the second request has an answer', () => /slowHTTP\/1\.1 \d{3} /.test(patient.text()))
    patient.socket.destroy()
    for (const one of asked) one.destroy()
  })

  it('closes the connection to a server whose client left during the look-up', async () => {
    let [opened, open] = [0, 0]
    const server = createServer((socket) => {
      opened += 1
      open += 1
      socket
        .on('error', () => undefined)
        .on('close', () => {
          open -= 1
        })
      socket.resume()
    }).listen(0, '127.0.0.9')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const looking = Promise.withResolvers<void>()
    const found = Promise.withResolvers<string[]>()
    const { socketPath } = await proxyRig({
      ports: [port],
      entry: { ...allowed, methods: ['GET'], addresses: ['127.0.0.0/8'] },
      limits: { halfClosedMs: 100 },
      resolve: () => {
        looking.resolve()
        return found.promise
      },
    })
    const socket = connect(socketPath)
    socket.write(absolute(port))
    await looking.promise
    socket.destroy()
    await once(socket, 'close')
    // An answer shows that the proxy has seen what happened before.
    await exchange(socketPath, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')

    found.resolve(['127.0.0.9'])

    await until('the server was reached', () => opened === 1)
    await until('its connection is closed', () => open === 0)
  })

  it.each([
    ['another Host', (port: number) => absolute(port).replace(`Host: ${HOST}`, `Host: ${OTHER}`), 421],
    ['two Hosts', (port: number) => absolute(port, `Host: ${HOST}:${port}\r\n`), 421],
    ['another method', (port: number) => absolute(port, '', 'DELETE'), 405],
    ['TRACE', (port: number) => absolute(port, '', 'TRACE'), 405],
    ['a GET with a body', (port: number) => absolute(port, 'Content-Length: 1\r\n'), 403],
    [
      'an override of the method',
      (port: number) => absolute(port, 'X-HTTP-Method-Override: DELETE\r\n'),
      403,
    ],
    ['an override of the path', (port: number) => absolute(port, 'X-Original-URL: /admin\r\n'), 400],
    ['a named hop-by-hop header', (port: number) => absolute(port).replace('close', 'close, X-A'), 400],
    [
      'two lengths',
      (port: number) => absolute(port, 'Content-Length: 1\r\nContent-Length: 2\r\n', 'POST'),
      400,
    ],
    [
      'a length and chunks',
      (port: number) => absolute(port, 'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n', 'POST'),
      400,
    ],
    [
      'another transfer coding',
      (port: number) => absolute(port, 'Transfer-Encoding: gzip, chunked\r\n', 'POST'),
      400,
    ],
    [
      'a websocket',
      (port: number) => absolute(port, 'Upgrade: websocket\r\n').replace('close', 'upgrade'),
      403,
    ],
    [
      'h2c',
      (port: number) => absolute(port, 'Upgrade: h2c\r\nHTTP2-Settings: AA\r\n').replace('close', 'upgrade'),
      403,
    ],
  ])('with %s is refused, with a reason, and reported', async (_what, request, status) => {
    const { http, requests } = await servers()
    const { socketPath, denied } = await proxyRig({
      ports: [http],
      entry: { ...allowed, methods: [...allowed.methods] },
    })

    const answer = await exchange(socketPath, request(http), 'a')

    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*refused: `))
    expect(denied()).not.toEqual([])
    expect(requests).toEqual([])
  })
})
