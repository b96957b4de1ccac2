import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { issue } from '../../runtime/egress-ca/certificate.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { until } from '../helpers/until.ts'
import { clientHello, helloMessage, record, serverName } from './hello.ts'
import {
  authority,
  egressRoot,
  HOST,
  listening,
  OTHER,
  portOf,
  received,
  tlsThrough,
  tunnel,
} from './proxy-rig.ts'
import { httpsServer, rawTlsServer, requestText, terminatingRig } from './terminate-rig.ts'

describe('TLS that the proxy terminates', () => {
  it('passes an allowed request, with a certificate of the proxy', async () => {
    const { port, seen } = await httpsServer()
    const { open, denied, apply, reports } = await terminatingRig(port)
    const socket = await open()
    const { closed } = received(socket)
    const certificate = socket.getPeerX509Certificate()

    socket.write(requestText(port, 'X-A: b\r\nProxy-Authorization: x\r\nTE: trailers\r\n', 'GET /x?y'))
    const text = (await closed).toString()
    await apply()

    expect(certificate?.subjectAltName).toBe(`DNS:${HOST}`)
    expect(certificate?.issuer).toBe('CN=Agentweaver egress proxy')
    expect(text).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*answer to GET \/x\?y/)
    expect(seen).toMatchObject([
      { method: 'GET', url: '/x?y', headers: { host: `${HOST}:${port}`, 'x-a': 'b' } },
    ])
    expect(seen[0]?.headers).not.toHaveProperty('proxy-authorization')
    expect(seen[0]?.headers).not.toHaveProperty('te')
    expect(denied()).toEqual([])
    const summary = reports.find(({ type }) => type === 'summary')
    expect(summary).toMatchObject({ data: { hosts: [{ host: HOST, connections: 1 }] } })
    expect(summary?.type === 'summary' && summary.data.hosts[0]?.receivedBytes).toBeGreaterThan(0)
  })

  it('passes bodies in both framings', async () => {
    const { port, seen } = await httpsServer()
    const { send } = await terminatingRig(port)

    await send(requestText(port, 'Content-Length: 5\r\n', 'POST /a'), 'hello')
    await send(
      requestText(port, 'Transfer-Encoding: chunked\r\n', 'POST /b'),
      '2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n',
    )
    await send(requestText(port, '', 'POST /c'))

    expect(seen).toMatchObject([
      { url: '/a', body: 'hello', headers: { 'content-length': '5' } },
      { url: '/b', body: 'hello', headers: { 'transfer-encoding': 'chunked' } },
      { url: '/c', body: '', headers: { 'content-length': '0' } },
    ])
  })

  it('judges each request of a connection', async () => {
    const { port, seen } = await httpsServer()
    const { open, denied } = await terminatingRig(port)
    const socket = await open()
    const { closed, text } = received(socket)
    const kept = (first: string) => `${first} HTTP/1.1\r\nHost: ${HOST}:${port}\r\n\r\n`

    socket.write(kept('GET /first'))
    await until('the first response', () => text().includes('answer to GET /first'))
    socket.write(kept('GET /second') + kept('DELETE /third') + kept('GET /fourth'))
    await closed

    expect(text()).toMatch(/answer to GET \/second[\s\S]*HTTP\/1\.1 405 /)
    expect(seen.map(({ url }) => url)).toEqual(['/first', '/second'])
    expect(denied()).toMatchObject([{ rule: 'method', method: 'DELETE', path: '/third' }])
  })

  it.each([
    ['another method', 405, (port: number) => requestText(port, 'Content-Length: 0\r\n', 'PUT /x?secret=1')],
    ['TRACE', 405, (port: number) => requestText(port, '', 'TRACE /x')],
    ['CONNECT', 405, () => `CONNECT ${OTHER}:443 HTTP/1.1\r\nHost: ${OTHER}:443\r\n\r\n`],
    ['another Host', 421, (port: number) => requestText(port).replace(HOST, OTHER)],
    ['another port in Host', 421, (port: number) => requestText(port).replace(`:${port}`, '')],
    ['two Hosts', 421, (port: number) => requestText(port, `Host: ${OTHER}\r\n`)],
    ['a path with dots', 400, (port: number) => requestText(port, '', 'GET /public/%2e%2e/admin')],
    ['an encoded slash', 403, (port: number) => requestText(port, '', 'GET /@a%2fb')],
    ['a GET with a body', 403, (port: number) => requestText(port, 'Content-Length: 1\r\n')],
    ['an override of the method', 403, (port: number) => requestText(port, 'X-HTTP-Method: PUT\r\n')],
    ['one with underscores', 403, (port: number) => requestText(port, 'X_HTTP_Method_Override: PUT\r\n')],
    ['one in the query', 403, (port: number) => requestText(port, '', 'POST /x?a=b&_method=DELETE')],
    ['an override of the path', 400, (port: number) => requestText(port, 'X-Original-URL: /admin\r\n')],
    ['a websocket', 403, (port: number) => websocketText(port)],
    [
      'h2c',
      403,
      (port: number) =>
        requestText(port, 'Upgrade: h2c\r\nHTTP2-Settings: AA\r\n').replace('close', 'upgrade'),
    ],
    ['an absolute target', 400, (port: number) => requestText(port, '', `GET https://${HOST}:${port}/`)],
  ])('refuses %s with %i, in words that name the way out, and reports it', async (_what, status, request) => {
    const { port, seen } = await httpsServer()
    const { send, denied } = await terminatingRig(port)

    const text = await send(request(port), 'a')

    expect(text).toMatch(
      new RegExp(
        `^HTTP/1\\.1 ${status} [\\s\\S]*agentweaver-egress: Connection to ${HOST}:${port} refused: `,
      ),
    )
    expect(denied()).toMatchObject([{ host: HOST, port }])
    expect(JSON.stringify(denied())).not.toContain('secret')
    expect(seen).toEqual([])
  })

  it('passes what the entry permits', async () => {
    const { port, seen } = await httpsServer()
    const { send } = await terminatingRig(port, {
      entry: { allow: ['encoded-slash', 'get-body', 'method-override'] },
    })

    await send(requestText(port, 'X-HTTP-Method-Override: PUT\r\nContent-Length: 1\r\n', 'GET /@a%2Fb'), 'a')

    expect(seen).toMatchObject([{ url: '/@a%2Fb', body: 'a', headers: { 'x-http-method-override': 'PUT' } }])
  })

  it.each([
    ['another server name', 'name-mismatch', clientHello(OTHER)],
    ['no server name', 'no-server-name', record(helloMessage([]))],
    ['an encrypted one', 'encrypted-client-hello', record(helloMessage([serverName(HOST), [0xfe0d, [0]]]))],
  ])('is refused with %s, and nothing is dialled', async (_what, rule, bytes) => {
    const { port, server } = await httpsServer()
    let connections = 0
    server.on('connection', () => {
      connections += 1
    })
    const { socketPath, target, denied } = await terminatingRig(port)
    const socket = await tunnel(socketPath, target)
    const { closed } = received(socket)

    socket.write(bytes)

    expect((await closed).toString('hex')).toBe('15030300020231')
    expect(denied()).toMatchObject([{ rule }])
    expect(connections).toBe(0)
  })

  it('lets no client resume a session', async () => {
    const { port } = await httpsServer()
    const { socketPath, target, open } = await terminatingRig(port)
    const first = await open()
    const sessions: Buffer[] = []
    first.on('session', (session) => sessions.push(session))
    first.write(requestText(port))
    await received(first).closed
    const session = first.getSession()

    const second = await tlsThrough(socketPath, target, {
      servername: HOST,
      ca: egressRoot.certificate,
      ...(session && { session: sessions[0] ?? session }),
    })

    expect(second.isSessionReused()).toBe(false)
    second.destroy()
  })

  it('reports a client that trusts only the certificate of the host, with the way out', async () => {
    const { port } = await httpsServer()
    const { socketPath, target, denied } = await terminatingRig(port)
    // Node checks certificates after the handshake, and sends no alert.
    const bridge = await listening(
      createServer((socket) => {
        socket.on('error', () => undefined)
        tunnel(socketPath, target).then(
          (proxied) => void socket.pipe(proxied).pipe(socket),
          () => socket.destroy(),
        )
      }),
    )

    const curl = spawn('curl', [
      '--silent',
      '--connect-to',
      `::127.0.0.1:${portOf(bridge)}`,
      `https://${target}/`,
    ])
    const [exitCode] = (await once(curl, 'exit')) as [number]

    expect(exitCode).toBe(60)
    await until('it is reported', () => denied().length > 0)
    expect(denied()).toMatchObject([
      { rule: 'certificate', remedy: expect.stringContaining('splice: allow') },
    ])
  })

  it('names the way out to a client that speaks only HTTP/2', async () => {
    const { port } = await httpsServer()
    const { socketPath, target, denied } = await terminatingRig(port)

    await expect(
      tlsThrough(socketPath, target, { servername: HOST, ca: egressRoot.certificate, ALPNProtocols: ['h2'] }),
    ).rejects.toThrow()

    await until('it is reported', () => denied().length > 0)
    expect(denied()).toMatchObject([{ rule: 'request', reason: expect.stringContaining('HTTP/2') }])
  })

  it('judges a request without TLS in the same tunnel by the rule for HTTP', async () => {
    const { port } = await httpsServer()
    const { socketPath, target } = await terminatingRig(port)
    const socket = await tunnel(socketPath, target)
    const { closed } = received(socket)

    socket.write(requestText(port))

    expect((await closed).toString()).toMatch(/^HTTP\/1\.1 403 /)
  })

  it('asks for a body only after the headers were judged', async () => {
    const { port, seen } = await httpsServer()
    const { send } = await terminatingRig(port)
    const expecting = (first: string) =>
      requestText(port, 'Expect: 100-continue\r\nContent-Length: 1\r\n', first)

    expect(await send(expecting('PUT /'))).toMatch(/^HTTP\/1\.1 405 /)
    expect(await send(expecting('POST /'), 'a')).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/)
    expect(seen).toMatchObject([{ method: 'POST', body: 'a' }])
    expect(seen[0]?.headers).not.toHaveProperty('expect')
  })
})

const websocketText = (port: number) =>
  requestText(
    port,
    'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n',
  ).replace('close', 'Upgrade')

describe('the certificate of the destination', () => {
  const stranger = createTestAuthority()

  it.each([
    ['of another name', () => authority.serverFor(OTHER), 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [
      'of an authority that is not trusted',
      () => stranger.serverFor(HOST),
      'its certificate is not accepted',
    ],
  ])('%s is refused, and nothing of the request is sent', async (_what, options, code) => {
    const { port, seen } = await httpsServer(options())
    const { send, denied } = await terminatingRig(port)

    const text = await send(requestText(port))

    expect(text).toMatch(/^HTTP\/1\.1 502 /)
    expect(text).toContain(code)
    expect(denied()).toMatchObject([{ rule: 'certificate' }])
    expect(seen).toEqual([])
  })

  it('that has expired is refused', async () => {
    const { port } = await httpsServer(expired())
    const { send } = await terminatingRig(port, { roots: [egressRoot.certificate] })

    expect(await send(requestText(port))).toContain('CERT_HAS_EXPIRED')
  })
})

describe('a destination behind terminated TLS', () => {
  it.each([
    ['surplus bytes', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\nevil', 200],
    ['another transfer coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n', 502],
    [
      'a length and chunks',
      'HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n',
      502,
    ],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok', 502],
    [
      'an upgrade without a request for one',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nevil',
      502,
    ],
    ['no HTTP', '\0\0\0\0', 502],
    [
      'a sentence of the proxy',
      'HTTP/1.1 403 Forbidden\r\nAgentweaver-Egress: evil\r\nContent-Length: 0\r\n\r\n',
      403,
    ],
    ['a redirect', `HTTP/1.1 302 Found\r\nLocation: https://${OTHER}/\r\nContent-Length: 0\r\n\r\n`, 302],
  ])('that sends %s: each client gets only its own response', async (_what, answer, status) => {
    const { port, sockets } = await rawTlsServer(answer)
    const { send, open } = await terminatingRig(port)
    const other = await open()
    const { text } = received(other)

    for (const response of [await send(requestText(port)), await send(requestText(port))]) {
      expect(response).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
      expect(response).not.toContain('evil')
    }
    expect(sockets).toHaveLength(2)
    expect(text()).toBe('')
    other.destroy()
  })

  it('that responds before the end of a request gets no further request on its connection', async () => {
    const { port, sockets, got } = await rawTlsServer('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const { open } = await terminatingRig(port)
    const socket = await open()
    const { text, closed } = received(socket)

    socket.write(`POST /a HTTP/1.1\r\nHost: ${HOST}:${port}\r\nContent-Length: 100\r\n\r\nsome`)
    await until('the early answer', () => text().endsWith('ok'))
    socket.write(`${'x'.repeat(96)}GET /b HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n\r\n`)
    await closed

    expect(sockets.length).toBeLessThanOrEqual(2)
    expect(got().match(/GET \/b/g)?.length ?? 0).toBeLessThanOrEqual(1)
    expect(sockets[0]?.destroyed).toBe(true)
  })
})

describe('a websocket through terminated TLS', () => {
  const accept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
  const answerWith = (value: string) =>
    rawTlsServer((socket) => {
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${value}\r\n\r\nfirst`,
      )
      socket.on('data', (data) => socket.write(`echo ${data}`))
    })
  const entry = { upgrade: 'websocket' } as const

  it('is opened if the entry allows it and the server accepts it', async () => {
    const { port } = await answerWith(accept)
    const { open } = await terminatingRig(port, { entry })
    const socket = await open()
    const { text } = received(socket)

    socket.write(websocketText(port))
    await until('the first bytes', () => text().endsWith('first'))
    socket.write('ping')

    await until('the echo', () => text().endsWith('echo ping'))
    expect(text()).toContain(accept)
    socket.destroy()
  })

  it.each([
    ['a wrong Sec-WebSocket-Accept', () => answerWith('AAAAAAAAAAAAAAAAAAAAAAAAAAA=')],
    ['another status', () => rawTlsServer('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst')],
  ])('is refused with %s', async (_what, serve) => {
    const { port } = await serve()
    const { send } = await terminatingRig(port, { entry })

    const text = await send(websocketText(port))

    expect(text).toMatch(/^HTTP\/1\.1 502 /)
    expect(text).not.toContain('first')
  })

  it.each([
    ['without a key', (text: string) => text.replace(/Sec-WebSocket-Key.*\r\n/, '')],
    ['of another version', (text: string) => text.replace('13', '12')],
    ['with another method', (text: string) => text.replace('GET', 'POST')],
    ['and h2c', (text: string) => text.replace('Upgrade: websocket', 'Upgrade: websocket, h2c')],
  ])('is refused %s', async (_what, change) => {
    const { port, got } = await answerWith(accept)
    const { send } = await terminatingRig(port, { entry })

    expect(await send(change(websocketText(port)))).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect(got()).toBe('')
  })
})

/** A certificate for `HOST` that ended yesterday. */
function expired() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const day = 24 * 60 * 60 * 1000
  const cert = issue({
    subject: HOST,
    publicKey,
    signer: egressRoot,
    use: { kind: 'server', names: [HOST] },
    from: new Date(Date.now() - 2 * day),
    to: new Date(Date.now() - day),
  })
  return { cert, key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })) }
}
