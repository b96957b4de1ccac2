import { expect, it } from 'vitest'
import { BEARER, type Subject, shared, stateOf } from './host.ts'
import { send, sendBytes } from './raw-http.ts'

const AUTH = `authorization: Bearer ${BEARER}`
const HOST = 'host: agent-host'
/** A complete request that must never be processed: it would return 200. */
const HIDDEN = `GET /files HTTP/1.1\r\n${HOST}\r\n${AUTH}\r\nconnection: close\r\n\r\n`
const HIDDEN_LENGTH = HIDDEN.length

const post = (...headers: string[]) =>
  `POST /decisions HTTP/1.1\r\n${[HOST, ...headers].join('\r\n')}\r\n\r\n`

/** Requests whose end is ambiguous. Each must be rejected and close the connection. */
const AMBIGUOUS: [string, string][] = [
  ['a length and chunks', `${post('content-length: 5', 'transfer-encoding: chunked')}0\r\n\r\n${HIDDEN}`],
  ['chunks and a length', `${post('transfer-encoding: chunked', 'content-length: 5')}0\r\n\r\n${HIDDEN}`],
  ['two lengths', `${post('content-length: 0', `content-length: ${HIDDEN_LENGTH}`)}${HIDDEN}`],
  ['the same length twice', `${post('content-length: 0', 'content-length: 0')}${HIDDEN}`],
  ['a list of lengths', `${post('content-length: 0, 0')}${HIDDEN}`],
  ['a negative length', `${post('content-length: -1')}${HIDDEN}`],
  ['a length with a sign', `${post('content-length: +0')}${HIDDEN}`],
  ['a length with a space', `${post('content-length: 0x0')}${HIDDEN}`],
  ['a length with a space in it', `${post('content-length: 0 0')}${HIDDEN}`],
  ['a space before the colon', `${post('transfer-encoding : chunked')}0\r\n\r\n${HIDDEN}`],
  ['an unknown coding', `${post('transfer-encoding: xchunked')}0\r\n\r\n${HIDDEN}`],
  ['two codings', `${post('transfer-encoding: chunked, identity')}0\r\n\r\n${HIDDEN}`],
  ['a coding twice', `${post('transfer-encoding: chunked', 'transfer-encoding: x')}0\r\n\r\n${HIDDEN}`],
  ['a folded header', `${post('x: a', ' transfer-encoding: chunked', 'content-length: 0')}${HIDDEN}`],
  ['a bare line feed', `POST /decisions HTTP/1.1\n${HOST}\ncontent-length: 0\n\n${HIDDEN}`],
  ['a bare carriage return', `${post('x: a\rtransfer-encoding: chunked', 'content-length: 0')}${HIDDEN}`],
  ['a NUL in a header', `${post('x: a\0b', 'content-length: 0')}${HIDDEN}`],
  ['a header without a name', `${post(': x', 'content-length: 0')}${HIDDEN}`],
  ['a header with a space in its name', `${post('content length: 0')}${HIDDEN}`],
  ['a chunk whose size is negative', `${post('transfer-encoding: chunked')}-1\r\n${HIDDEN}`],
  ['a chunk with an oversized length', `${post('transfer-encoding: chunked')}ffffffffffffffff1\r\n${HIDDEN}`],
  ['a chunk that ends too late', `${post('transfer-encoding: chunked')}1\r\nab\r\n0\r\n\r\n${HIDDEN}`],
  ['a chunk with a bare line feed', `${post('transfer-encoding: chunked')}1\na\n0\n\n${HIDDEN}`],
  ['no host', `GET /files HTTP/1.1\r\n${AUTH}\r\n\r\n${HIDDEN}`],
  ['no version', `GET /files\r\n\r\n${HIDDEN}`],
  ['a future version', `GET /files HTTP/3.0\r\n${HOST}\r\n\r\n${HIDDEN}`],
  ['the preface of HTTP/2', `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${HIDDEN}`],
  ['a malformed request line', `nonsense\r\n\r\n${HIDDEN}`],
]

export function smugglingCases(subject: Subject): void {
  const host = shared(subject, {})

  it('serves a valid request, and a second one on the same connection (control)', async () => {
    const first = `GET /files HTTP/1.1\r\n${HOST}\r\n${AUTH}\r\n\r\n`

    const answers = await sendBytes(host(), first + HIDDEN)

    expect(answers.map(({ status }) => status)).toEqual([200, 200])
  })

  it.each(AMBIGUOUS)('rejects %s, and ignores everything after it', async (_what, bytes) => {
    const answers = await sendBytes(host(), bytes)

    // A request without a credential may be rejected before its body is found to be malformed.
    for (const { status } of answers) expect([400, 401, 431, 501, 505]).toContain(status)
  })

  it('rejects endless headers', async () => {
    const long = await sendBytes(host(), `GET /files HTTP/1.1\r\n${HOST}\r\nx: ${'x'.repeat(70_000)}\r\n\r\n`)
    const many = await sendBytes(host(), `GET /files HTTP/1.1\r\n${HOST}\r\n${'x: y\r\n'.repeat(20_000)}\r\n`)

    for (const { status } of [...long, ...many]) expect(status).toBe(431)
    expect(await stateOf(host())).toBe('ready')
  })

  it('rejects a second host and a second credential, in any order', async () => {
    const wrong = 'authorization: Bearer wrong'
    const ask = async (...headers: string[]) => {
      const [answer] = await sendBytes(
        host(),
        `GET /files HTTP/1.1\r\n${[HOST, 'connection: close', ...headers].join('\r\n')}\r\n\r\n`,
      )
      return answer?.status
    }

    expect(await ask(AUTH)).toBe(200)
    expect(await ask(AUTH, 'host: other')).toBe(400)
    expect(await ask(AUTH, AUTH)).toBe(401)
    expect(await ask(AUTH, wrong)).toBe(401)
    expect(await ask(wrong, AUTH)).toBe(401)
    expect(await ask(`${AUTH}, Bearer wrong`)).toBe(401)
    expect(await ask(`authorization: Bearer wrong, Bearer ${BEARER}`)).toBe(401)
    expect(await ask(`authorization: Bearer  ${BEARER}`)).toBe(401)
    expect(await ask(`authorization: ${BEARER}`)).toBe(401)
    expect(await ask(`x-authorization: Bearer ${BEARER}`)).toBe(401)
    expect(await ask(`proxy-authorization: Bearer ${BEARER}`)).toBe(401)
    expect(await ask(`cookie: authorization=Bearer ${BEARER}`)).toBe(401)
  })

  it('ignores headers that override the path or method', async () => {
    const headers = {
      'x-original-url': '/files',
      'x-rewrite-url': '/files',
      'x-http-method-override': 'DELETE',
      'x-forwarded-prefix': '/files',
      forwarded: 'for=127.0.0.1',
      'x-forwarded-for': '127.0.0.1',
    }

    const open = await send(host(), { method: 'GET', path: '/healthz', headers })
    const guarded = await send(host(), { method: 'GET', path: '/files', headers })

    expect([open.status, open.json]).toEqual([200, expect.objectContaining({ state: 'ready' })])
    expect(guarded.status).toBe(401)
  })
}
