import { describe, expect, it } from 'vitest'
import { HOST, received } from './proxy-rig.ts'
import { rawTlsServer, terminatingRig } from './terminate-rig.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n'

/** Starts of requests in which programs see different ends, or different headers. `HOST` is replaced. */
const HEADS: readonly (readonly [what: string, head: string])[] = [
  ['a length and chunks', 'Content-Length: 5\r\nTransfer-Encoding: chunked'],
  ['chunks and a length', 'Transfer-Encoding: chunked\r\nContent-Length: 5'],
  ['two lengths', 'Content-Length: 5\r\nContent-Length: 0'],
  ['two equal lengths', 'Content-Length: 5\r\nContent-Length: 5'],
  ['a list of lengths', 'Content-Length: 5, 0'],
  ['a signed length', 'Content-Length: +5'],
  ['a negative length', 'Content-Length: -5'],
  ['a hexadecimal length', 'Content-Length: 0x5'],
  ['a length with a space before the colon', 'Content-Length : 5'],
  ['a length with an underscore', 'Content_Length: 5'],
  ['a folded length', 'Content-Length:\r\n 5'],
  ['a length after a vertical tab', 'Content-Length:\x0b5'],
  ['chunks with a space before the colon', 'Transfer-Encoding : chunked'],
  ['chunks after a tab', 'Transfer-Encoding:\tchunked'],
  ['chunks after a vertical tab', 'Transfer-Encoding:\x0bchunked'],
  ['chunks with an underscore', 'Transfer_Encoding: chunked'],
  ['folded chunks', 'Transfer-Encoding:\r\n chunked'],
  ['quoted chunks', 'Transfer-Encoding: "chunked"'],
  ['unknown chunks', 'Transfer-Encoding: xchunked'],
  ['chunks that are not last', 'Transfer-Encoding: chunked, identity'],
  ['chunks twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity'],
  ['chunks with a parameter', 'Transfer-Encoding: chunked;a=b'],
  ['a header after a bare line feed', 'X: a\nContent-Length: 5'],
  ['a header after a bare carriage return', 'X: a\rContent-Length: 5'],
  ['a NUL in a header', 'X: a\0b\r\nContent-Length: 5'],
  ['a name with a space', 'X Y: a'],
  ['a name that begins with a space', ' Content-Length: 5'],
  ['an empty name', ': a'],
  ['a named hop-by-hop header', 'Connection: Content-Length\r\nContent-Length: 5'],
  ['an old upgrade', 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA'],
  ['an unknown expectation', 'Expect: 200-ok\r\nContent-Length: 5'],
]
const BODIES = [
  '',
  '0\r\n\r\n',
  `5\r\n0\r\n\r\nX\r\n`,
  '5;x=\n\r\nab\r\n0\r\n\r\n',
  '00000000000000005\r\nab\r\n\r\n',
  '5\nhello\n0\n\n',
]

const LINES = ['POST /ok HTTP/1.1', 'GET /ok HTTP/1.1', 'POST /ok HTTP/1.0']

/** Reads requests as strictly as the standard allows, and returns their first lines. Throws for everything else. */
function strictly(text: string): string[] {
  const lines: string[] = []
  for (let rest = text; rest !== ''; ) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0) throw new Error(`no end of a header: ${rest}`)
    const [line = '', ...headers] = rest.slice(0, end).split('\r\n')
    lines.push(line)
    rest = afterBody(rest.slice(end + 4), headers)
  }
  return lines
}

function afterBody(text: string, headers: readonly string[]): string {
  const values = (name: string) =>
    headers.flatMap((one) => (one.toLowerCase().startsWith(`${name}: `) ? [one.slice(name.length + 2)] : []))
  for (const one of headers)
    if (!/^[A-Za-z0-9!#$%&'*+.^`|~_-]+: [\x20-\x7e\t]*$/.test(one)) throw new Error(`header ${one}`)
  const [length, coding] = [values('content-length'), values('transfer-encoding')]
  if (length.length + coding.length > 1 || values('host').length !== 1) throw new Error('ambiguous')
  return coding.length === 1 ? afterChunks(text) : text.slice(Number(length[0] ?? 0))
}

function afterChunks(text: string): string {
  let rest = text
  for (;;) {
    const [, digits] = /^([0-9a-f]+)\r\n/.exec(rest) ?? []
    // The client has not sent the rest.
    if (digits === undefined) return ''
    const size = Number.parseInt(digits, 16)
    rest = rest.slice(digits.length + 2 + size)
    if (rest !== '' && !rest.startsWith('\r\n')) throw new Error(`chunk ${rest}`)
    rest = rest.slice(2)
    if (size === 0) return rest
  }
}

describe('requests with ambiguous framing', () => {
  it('reach a strict server only as requests that were judged, each on a separate connection', async () => {
    const { port, connections } = await recordingServer()
    const { open } = await terminatingRig(port, {
      entry: { requests: [{ methods: ['GET', 'POST'], paths: ['/ok'] }] },
      // Most of these requests never end.
      limits: { headerMs: 5000, keepAliveMs: 1000, idleMs: 10_000 },
    })
    const send = async (text: string) => {
      const socket = await open()
      const { closed } = received(socket)
      socket.write(text.replaceAll('HOST', `${HOST}:${port}`), 'latin1')
      await closed
    }
    const inputs = HEADS.flatMap(([, head], index) =>
      BODIES.map((body) => {
        const line = LINES[index % LINES.length]
        return `${line}\r\nHost: HOST\r\n${head}\r\n\r\n${body}${SMUGGLED}`
      }),
    )
    const control = 'POST /ok HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi'

    for (let at = 0; at < inputs.length; at += 32) await Promise.all(inputs.slice(at, at + 32).map(send))
    const before = connections.length
    await send(control)

    const read = connections.map((text) => strictly(text))
    expect(connections.length).toBe(before + 1)
    for (const lines of read) {
      expect(lines).toHaveLength(1)
      expect(lines[0]).toMatch(/^(?:GET|POST) \/ok HTTP\/1\.1$/)
    }
  })

  it('would be seen: the strict reader finds a second request', () => {
    const head = 'POST /ok HTTP/1.1\r\nHost: a\r\n'

    expect(strictly(`${head}Content-Length: 2\r\n\r\nhi${SMUGGLED}`)).toHaveLength(2)
    expect(() => strictly(`${head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi`)).toThrow(
      'ambiguous',
    )
    expect(() => strictly(`${head}Content_Length : 2\r\n\r\n`)).toThrow('header')
  })
})

/** Records what each connection receives. */
async function recordingServer() {
  const connections: string[] = []
  const { port, server } = await rawTlsServer('')
  server.on('secureConnection', (socket) => {
    const index = connections.push('') - 1
    socket.on('data', (data) => {
      connections[index] += data.toString('latin1')
      // A real server answers when it has the header.
      if (connections[index]?.includes('\r\n\r\n')) socket.end(OK)
    })
  })
  return { port, connections }
}
