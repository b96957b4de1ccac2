import { once } from 'node:events'
import { expect, it } from 'vitest'
import type { EgressBudget } from '../../contracts/egress.ts'
import { SentBytes } from '../../runtime/egress/sent-bytes.ts'
import { until } from '../helpers/until.ts'
import { exchange, HOST, OTHER, proxyRig, received, servers, tlsThrough } from './proxy-rig.ts'
import { httpsServer, rawTlsServer, requestText, terminatingRig } from './terminate-rig.ts'

const KIB = 1024

it('reports the bytes that were sent to the hosts of an entry at 50, 80 and 100 percent, and refuses more', () => {
  const reported: EgressBudget[] = []
  const sent = new SentBytes((budget) => reported.push(budget))
  const entry = { caller: 'any', maxSent: { bytes: 10, entry: '*.example.com' } } as const

  for (let bytes = 0; bytes < 10; bytes += 1) {
    expect(sent.refusalOf(entry)).toBeUndefined()
    expect(sent.add(entry, 1)).toBeUndefined()
  }

  expect(sent.refusalOf(entry)).toMatchObject({
    rule: 'budget',
    reason: expect.stringContaining('10 bytes to *'),
  })
  expect(sent.add(entry, 1)).toMatchObject({ rule: 'budget' })
  expect(sent.refusalOf({ ...entry, maxSent: { bytes: 10, entry: 'b.example.org' } })).toBeUndefined()
  expect(sent.refusalOf({ ...entry, caller: 'agent-host' })).toBeUndefined()
  expect(sent.refusalOf({ caller: 'any' })).toBeUndefined()
  expect(reported).toEqual(
    [5, 8, 10].map((used) => ({ kind: 'sent_bytes', host: '*.example.com', used, limit: 10 })),
  )
})

it('closes a connection that is passed on unread before it exceeds the limit', async () => {
  const { port, got } = await rawTlsServer('welcome')
  const { socketPath, denied, reports } = await proxyRig({
    ports: [port],
    entry: { maxSent: { bytes: 64 * KIB, entry: HOST } },
  })
  const target = `${HOST}:${port}`
  const socket = await tlsThrough(socketPath, target, { servername: HOST })
  const { closed } = received(socket)

  socket.write('a'.repeat(20 * KIB))
  await until('the first bytes arrive', () => got().length === 20 * KIB)
  socket.write('b'.repeat(1024 * KIB))
  await closed

  expect(got().length).toBeLessThanOrEqual(64 * KIB)
  expect(denied()).toMatchObject([{ host: HOST, rule: 'budget' }])
  expect(reports).toContainEqual(
    expect.objectContaining({ type: 'budget', data: expect.objectContaining({ kind: 'sent_bytes' }) }),
  )
  expect(await exchange(socketPath, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)).toMatch(
    /^HTTP\/1\.1 429 .*maxSentMiB/s,
  )
})

it('counts all hosts of a pattern together, and no host of another entry', async () => {
  const { tls } = await servers()
  const { socketPath, apply, generation } = await proxyRig({ ports: [tls] })
  const [listed] = generation().destinations
  if (!listed) throw new Error('the rig lists a destination')
  const pattern = {
    ...listed,
    host: '*.agentweaver-test.com',
    maxSent: { bytes: 8 * KIB, entry: '*.agentweaver-test.com' },
  }
  const opens = (name: string) =>
    exchange(
      socketPath,
      `CONNECT ${name}:${tls} HTTP/1.1\r\nHost: ${name}:${tls}\r\n\r\n`,
      Buffer.from([22, 0]),
    )
  await apply(generation({ destinations: [pattern] }))
  const socket = await tlsThrough(socketPath, `${HOST}:${tls}`, { servername: HOST })

  socket.write('a'.repeat(9 * KIB))
  await once(socket, 'close')

  expect(await opens(OTHER)).toMatch(/^HTTP\/1\.1 429 /)
  await apply(generation({ destinations: [{ ...listed, host: OTHER }, pattern] }))
  expect(await opens(OTHER)).toMatch(/^HTTP\/1\.1 200 /)
})

it('answers a request that exceeds the limit with a sentence, and sends no more of it', async () => {
  const { port, seen } = await httpsServer()
  const { send, denied } = await terminatingRig(port, { entry: { maxSent: { bytes: 4 * KIB, entry: HOST } } })
  const post = (bytes: number) =>
    `POST /upload HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\nContent-Length: ${bytes}\r\n\r\n${'a'.repeat(bytes)}`

  expect(await send(post(2 * KIB))).toContain('answer to POST /upload')
  expect(await send(post(64 * KIB))).toMatch(/^HTTP\/1\.1 429 .*maxSentMiB/s)
  await expect(send(post(1))).rejects.toThrow(/429/)

  expect(seen.map(({ body }) => body.length)).toEqual([2 * KIB])
  expect(denied()).toMatchObject([{ rule: 'budget', method: 'POST', path: '/upload' }, { rule: 'budget' }])
})

it('counts the paths and headers of requests', async () => {
  const { port, seen } = await httpsServer()
  const { send } = await terminatingRig(port, { entry: { maxSent: { bytes: 4 * KIB, entry: HOST } } })
  const get = (path: string) =>
    send(`GET ${path} HTTP/1.1\r\nHost: ${HOST}:${port}\r\nConnection: close\r\n\r\n`)

  expect(await get(`/${'a'.repeat(3 * KIB)}`)).toContain('answer to GET')
  expect(await get(`/${'b'.repeat(3 * KIB)}`)).toMatch(/^HTTP\/1\.1 429 /)

  expect(seen).toHaveLength(1)
})

it('closes a websocket before it exceeds the limit', async () => {
  const { port, got } = await rawTlsServer((socket) => {
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nfirst',
    )
  })
  const { open, denied } = await terminatingRig(port, {
    entry: { upgrade: 'websocket', maxSent: { bytes: 4 * KIB, entry: HOST } },
  })
  const socket = await open()
  const { text, closed } = received(socket)
  const upgrade =
    'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'

  socket.write(requestText(port, upgrade).replace('close', 'Upgrade'))
  await until('the websocket is open', () => text().endsWith('first'))
  const opening = got().length
  socket.write('a'.repeat(KIB))
  await until('the first bytes arrive', () => got().length === opening + KIB)
  socket.write('b'.repeat(64 * KIB))
  await closed

  expect(got().length).toBeLessThanOrEqual(4 * KIB)
  expect(denied()).toMatchObject([{ host: HOST, rule: 'budget' }])
})
