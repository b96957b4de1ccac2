import { once } from 'node:events'
import { expect, it } from 'vitest'
import { CONFIGURE_LIMITS } from '../../../contracts/limits.ts'
import { forge } from './forge.ts'
import {
  aConfiguration,
  configure,
  fresh,
  type HostUnderTest,
  type Subject,
  shared,
  stateOf,
} from './host.ts'
import { headOf, parseAnswers, readToEnd, sendBytes } from './raw-http.ts'

const TOO_LONG = CONFIGURE_LIMITS.maxBodyBytes + 1

/** Head and body of a valid request. */
function parts({ keys }: Subject, host: HostUnderTest, body = JSON.stringify(aConfiguration(host))) {
  const ticket = forge(keys(), { instanceId: host.instanceId, runId: 'run-1', body })
  const head = (headers: Record<string, string>, credential = ticket) =>
    `${headOf({
      method: 'POST',
      path: '/configure',
      headers: { authorization: `Bearer ${credential}`, 'content-type': 'application/json', ...headers },
    })}\r\n`
  return { head, body, length: String(Buffer.byteLength(body)) }
}

export function bodyCases(subject: Subject): void {
  /** Receives every request that must not configure it, and is configured at the end. */
  const unspent = shared(subject)

  it('is not configured by an incomplete body, and does not wait for a slow one', async () => {
    const host = await fresh(subject)
    const { head, body, length } = parts(subject, host)
    const left = await host.connect()
    left.write(head({ 'content-length': length }) + body.slice(0, 40))
    left.end()
    const slow = await host.connect()
    const ended = readToEnd(slow)
    slow.write(head({ 'content-length': length }) + body.slice(0, -1))

    const before = await stateOf(host)
    const other = await configure(subject, host, { change: { runId: 'run-2' } })
    slow.write(body.slice(-1))
    const [late] = parseAnswers(await ended)

    expect(before).toBe('standby')
    expect(other.status).toBe(200)
    expect([late?.status, late?.json]).toEqual([409, expect.objectContaining({ runId: 'run-2' })])
  })

  it.each<[string, (byte: string) => string, string]>([
    ['byte by byte', (byte) => byte, ''],
    ['in chunks of one byte', (byte) => `1\r\n${byte}\r\n`, '0\r\n\r\n'],
  ])('accepts a body %s', async (_what, piece, end) => {
    const host = await fresh(subject)
    const { head, body, length } = parts(subject, host)
    const socket = await host.connect()
    const ended = readToEnd(socket)
    socket.setNoDelay(true)
    socket.write(head(end === '' ? { 'content-length': length } : { 'transfer-encoding': 'chunked' }))
    for (const byte of body) {
      if (!socket.write(piece(byte))) await once(socket, 'drain')
    }
    socket.write(end)

    const [answer] = parseAnswers(await ended)

    expect(answer?.status).toBe(200)
  })

  it('rejects a body beyond the limit, announced or not, and stays in standby', async () => {
    const host = unspent()
    const big = JSON.stringify(aConfiguration(host, { userId: 'u'.repeat(TOO_LONG) }))
    const { head } = parts(subject, host, big)
    const chunk = `${(65_536).toString(16)}\r\n${'u'.repeat(65_536)}\r\n`

    const [announced] = await sendBytes(host, head({ 'content-length': String(big.length) }))
    const [grown] = await sendBytes(host, head({ 'transfer-encoding': 'chunked' }) + chunk.repeat(130))

    expect([announced?.status, announced?.json]).toEqual([
      413,
      expect.objectContaining({ code: 'payload_too_large' }),
    ])
    expect(grown?.status ?? 413, 'an answer may be lost with the connection').toBe(413)
    expect(await stateOf(host)).toBe('standby')
  })

  it('reads no body of a request without a ticket', async () => {
    const host = unspent()
    const { head } = parts(subject, host)

    const [answer] = await sendBytes(host, head({ 'content-length': String(8_000_000) }, 'nonsense'))

    expect(answer?.status).toBe(401)
  })

  it.each<[string, (genuine: string) => string]>([
    ['nothing', () => ''],
    ['an array', () => '[]'],
    ['"null"', () => 'null'],
    ['two values', (genuine) => `${genuine}${genuine}`],
    ['a prototype', (genuine) => genuine.replace('{', '{"__proto__":{"runId":"run-9"},')],
    ['endless nesting', () => '['.repeat(4_000_000)],
    ['not JSON', () => '\x1f\x8b\x08\0'.repeat(10)],
    ['a byte order mark before it', (genuine) => `\uFEFF${genuine}`],
  ])('rejects a signed body that is %s', async (_what, make) => {
    const host = unspent()

    const { status } = await configure(subject, host, { body: make(JSON.stringify(aConfiguration(host))) })

    expect(status).toBe(400)
    expect(await stateOf(host)).toBe('standby')
  })

  it('accepts a body split inside a character after all of these', async () => {
    const body = JSON.stringify(aConfiguration(unspent())).replace('user-1', '\\ud800')

    expect((await configure(subject, unspent(), { body })).status).toBe(200)
  })
}
