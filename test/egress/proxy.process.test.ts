import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { until } from '../helpers/until.ts'
import { clientHello, fragmented, helloMessage, record, serverHello, serverName } from './hello.ts'
import {
  exchange,
  HOST,
  OTHER,
  proxyRig,
  rawServer,
  received,
  servers,
  tlsThrough,
  tunnel,
} from './proxy-rig.ts'

describe('TLS through the proxy', () => {
  it('reaches a listed host with its name', async () => {
    const { tls, names } = await servers()
    const { socketPath, apply, reports } = await proxyRig({ ports: [tls] })

    const socket = await tlsThrough(socketPath, `${HOST.toUpperCase()}.:${tls}`, { servername: HOST })
    socket.write('hello')
    const [answer] = await once(socket, 'data')
    socket.destroy()
    await apply()

    expect(String(answer)).toBe('echo hello')
    expect(names).toEqual([HOST])
    const summary = reports.find(({ type }) => type === 'summary')
    expect(summary).toMatchObject({ data: { hosts: [{ host: HOST, port: tls, connections: 1, denied: 0 }] } })
  })

  it('is refused with another server name than the target, and the server gets no byte', async () => {
    const { port, got } = await rawServer(Buffer.alloc(0))
    const { socketPath, denied } = await proxyRig({ ports: [port] })
    const socket = await tunnel(socketPath, `${HOST}:${port}`)
    const { closed } = received(socket)

    socket.write(clientHello(OTHER))

    expect((await closed).toString('hex')).toBe('15030300020231')
    expect(got().length).toBe(0)
    expect(denied()).toMatchObject([{ rule: 'name-mismatch', host: HOST, port }])
  })

  it('reaches the server with the right name, split into small records and packets', async () => {
    const { port, got } = await rawServer(serverHello('other'))
    const { socketPath } = await proxyRig({ ports: [port] })
    const socket = await tunnel(socketPath, `${HOST}:${port}`)
    const bytes = fragmented(helloMessage([serverName(HOST)]), 5)

    for (const byte of bytes) socket.write(Buffer.from([byte]))

    await until('the server has it', () => got().length === bytes.length)
    expect(got()).toEqual(bytes)
  })

  it.each([
    ['after the server has asked for it', 'late'],
    ['before the server has asked for it', 'early'],
  ])('is refused if a second ClientHello has another name, sent %s', async (_what, time) => {
    const { port, got } = await rawServer(serverHello('retry'))
    const { socketPath, denied } = await proxyRig({ ports: [port] })
    const socket = await tunnel(socketPath, `${HOST}:${port}`)
    const { closed, text } = received(socket)
    const first = clientHello(HOST)
    const second = Buffer.concat([record(Buffer.from([1]), 20), clientHello(OTHER)])

    socket.write(time === 'early' ? Buffer.concat([first, second]) : first)
    if (time === 'late') {
      await until('the server has answered', () => text().length > 0)
      socket.write(second)
    }
    await closed

    expect(got()).toEqual(first)
    expect(denied()).toMatchObject([{ rule: 'name-mismatch' }])
  })

  it('passes a second ClientHello with the same name', async () => {
    const { port, got } = await rawServer(serverHello('retry'))
    const { socketPath } = await proxyRig({ ports: [port] })
    const socket = await tunnel(socketPath, `${HOST}:${port}`)
    const bytes = Buffer.concat([clientHello(HOST), record(Buffer.from([1]), 20), clientHello(HOST)])

    socket.write(bytes)

    await until('the server has both', () => got().length === bytes.length)
    expect(got()).toEqual(bytes)
  })

  it.each([
    ['no-server-name', record(helloMessage([]))],
    ['encrypted-client-hello', record(helloMessage([serverName(HOST), [0xfe0d, [0]]]))],
    ['client-hello', record(helloMessage([serverName(HOST, OTHER)]))],
  ])('is refused as %s', async (rule, bytes) => {
    const { port, got } = await rawServer(Buffer.alloc(0))
    const { socketPath, denied } = await proxyRig({ ports: [port] })
    const socket = await tunnel(socketPath, `${HOST}:${port}`)
    const { closed } = received(socket)

    socket.write(bytes)
    await closed

    expect(got().length).toBe(0)
    expect(denied()).toMatchObject([{ rule }])
  })
})

describe('an address', () => {
  it('of this machine is refused, unless the entry names it', async () => {
    const { tls } = await servers()
    const resolve = async () => ['127.0.0.1']
    const named = ['127.0.0.1/32', '127.0.0.0/8']
    const open = await proxyRig({ ports: [tls], entry: { addresses: named }, resolve })
    const closed = await proxyRig({ ports: [tls], entry: { addresses: undefined }, resolve })

    const control = await tlsThrough(open.socketPath, `${HOST}:${tls}`, { servername: HOST })
    const answer = await exchange(closed.socketPath, `CONNECT ${HOST}:${tls} HTTP/1.1\r\n\r\n`)
    control.destroy()

    expect(answer).toMatch(/^HTTP\/1\.1 403 Forbidden\r\nagentweaver-egress: Connection to .*127\.0\.0\.1/)
    expect(closed.denied()).toMatchObject([{ rule: 'address' }])
  })

  it('is refused if only one of several is private', async () => {
    const { tls } = await servers()
    const rig = await proxyRig({
      ports: [tls],
      entry: { addresses: ['127.0.0.1/32', '10.0.0.0/8'] },
      resolve: async () => ['127.0.0.1', '169.254.169.254'],
    })

    const answer = await exchange(rig.socketPath, `CONNECT ${HOST}:${tls} HTTP/1.1\r\n\r\n`)

    expect(answer).toContain('169.254.169.254')
  })

  it('is looked up once for each connection, and the checked one is dialled', async () => {
    const { tls, names } = await servers()
    const answers = [['127.0.0.1'], ['10.255.255.1']]
    let lookUps = 0
    const rig = await proxyRig({
      ports: [tls],
      entry: { addresses: ['127.0.0.1/32', '127.0.0.0/8'] },
      resolve: async () => answers[lookUps++] ?? [],
    })

    const socket = await tlsThrough(rig.socketPath, `${HOST}:${tls}`, { servername: HOST })
    await until('the server has the connection', () => names.length > 0)
    socket.destroy()
    const second = await exchange(rig.socketPath, `CONNECT ${HOST}:${tls} HTTP/1.1\r\n\r\n`)

    expect(names).toEqual([HOST])
    expect(second).toContain('10.255.255.1')
    expect(lookUps).toBe(2)
  })
})

describe('a request', () => {
  it.each([
    ['another host', `CONNECT ${OTHER}:443 HTTP/1.1\r\n\r\n`, 403, 'not-listed'],
    ['an address', 'CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n', 403, 'not-listed'],
    ['another port', `CONNECT ${HOST}:22 HTTP/1.1\r\n\r\n`, 403, 'port'],
    ['two hosts', `CONNECT ${HOST}:443 HTTP/1.1\r\nHost: ${OTHER}:443\r\n\r\n`, 400, 'malformed-request'],
    ['a user', `CONNECT u@${HOST}:443 HTTP/1.1\r\n\r\n`, 400, 'malformed-request'],
    ['a body', `CONNECT ${HOST}:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc`, 400, 'malformed-request'],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.9\r\n\r\n', 400, 'malformed-request'],
    [
      'https without a tunnel',
      `GET https://${HOST}/ HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`,
      400,
      'malformed-request',
    ],
  ])('for %s is refused', async (_what, ...rest) => {
    const [request, status, rule] = rest
    const { socketPath, denied } = await proxyRig({ ports: [443] })

    const answer = await exchange(socketPath, request)

    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(answer).toContain('agentweaver-egress: ')
    expect(denied()).toMatchObject([{ rule }])
  })

  it('with a header above the limit is refused', async () => {
    const { socketPath, denied } = await proxyRig({ ports: [443] })

    await exchange(socketPath, `CONNECT ${HOST}:443 HTTP/1.1\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`)

    expect(denied()).toMatchObject([{ rule: 'malformed-request' }])
  })

  it('that never ends is closed', async () => {
    const { socketPath } = await proxyRig({ ports: [443], limits: { headerMs: 50, handshakeMs: 50 } })

    const answer = await exchange(socketPath, 'CONNECT ')

    expect(answer).not.toContain('200')
  })

  it('whose client sends nothing in the tunnel is closed', async () => {
    const { tls } = await servers()
    const { socketPath } = await proxyRig({ ports: [tls], limits: { handshakeMs: 50 } })
    const socket = await tunnel(socketPath, `${HOST}:${tls}`)

    await received(socket).closed
  })
})

describe('a new state', () => {
  it('closes the connections that it does not allow, and keeps the others', async () => {
    const { tls } = await servers()
    const { socketPath, apply, generation, denied } = await proxyRig({ ports: [tls] })
    const socket = await tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST })

    await apply(generation({ destinations: [...generation().destinations, ...generation().destinations] }))
    socket.write('still')
    const [answer] = await once(socket, 'data')
    const { closed } = received(socket)
    await apply(generation({ destinations: [] }))
    await closed

    expect(String(answer)).toBe('echo still')
    expect(denied()).toMatchObject([{ rule: 'not-listed', host: HOST }])
  })

  it('without the sandbox closes its connections and its socket', async () => {
    const { tls } = await servers()
    const { socketPath, apply } = await proxyRig({ ports: [tls] })
    const socket = await tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST })
    const idle = connect(socketPath)
    await once(idle, 'connect')
    const ended = [received(socket).closed, received(idle).closed]

    await apply()
    await Promise.all(ended)

    const [error] = await once(connect(socketPath), 'error')
    expect(error).toMatchObject({ code: 'ENOENT' })
  })
})

describe('the limits', () => {
  it('refuse connections beyond the limit of a sandbox, and only while it is reached', async () => {
    const { tls } = await servers()
    const { socketPath, denied } = await proxyRig({ ports: [tls], limits: { connectionsPerRun: 3 } })
    const open = [await tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST })]
    open.push(await tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST }))
    open.push(await tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST }))

    const refused = tunnel(socketPath, `${HOST}:${tls}`)
    await expect(refused).rejects.toThrow()
    for (const socket of open) socket.destroy()
    await until('there is room again', () =>
      tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST }).then(
        () => true,
        () => false,
      ),
    )
    expect(denied().every(({ rule }) => rule === 'too-many-connections')).toBe(true)
  })

  it('close all connections of a sandbox that has used up its bytes', async () => {
    const { tls } = await servers()
    const { socketPath, denied } = await proxyRig({
      ports: [tls],
      limits: { bytesPerRun: 50_000, meterMs: 20 },
    })
    const socket = await tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST })
    const { closed } = received(socket)

    socket.write(Buffer.alloc(100_000))
    await closed

    expect(denied()).toMatchObject([{ rule: 'budget' }])
    expect(await exchange(socketPath, `CONNECT ${HOST}:${tls} HTTP/1.1\r\n\r\n`)).toContain('its limit')
  })
})
