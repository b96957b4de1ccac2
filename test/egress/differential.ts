import { parseHostName } from '../../policies/agent/egress/host-name.ts'
import { parseAbsoluteForm, parseAuthority } from '../../runtime/egress/authority.ts'
import { readClientHello } from '../../runtime/egress/client-hello.ts'
import { headOf, isModelHead, tokenOf } from '../../runtime/egress/cluster/request-token.ts'
import { isForModel } from '../../runtime/egress/model/route.ts'
import { parsePath } from '../../runtime/egress/path.ts'
import { forwardedHeaders, pairs } from '../../runtime/egress/request-headers.ts'
import { readRequest } from '../../runtime/egress/request-rules.ts'
import { fragmented, helloMessage, record, serverName } from './hello.ts'
import { readByLlhttp } from './llhttp.ts'

/** An input that the proxy accepts, and its reading. Other programs must not read it in another way. */
export interface Accepted {
  readonly kind: 'authority' | 'absolute' | 'hello' | 'request' | 'first'
  readonly input: Buffer
  /** `host:port` and the path, the server name, or method, target and length of the body. */
  readonly reading: string
}

/** Starting points of the mutations. An input that once led to a defect stays here. */
const SEEDS = {
  authority: [
    ...[
      'a.example.com:443',
      'A.Example.COM.:443',
      '[2001:db8::1]:443',
      '127.0.0.1:80',
      'xn--bcher-kva.example:443',
    ],
    ...[
      'a.example.com:0443',
      'user@a.example.com:443',
      'a.example.com:443@b:1',
      '[::ffff:127.0.0.1]:443',
      '0x7f.1:80',
    ],
    ...[
      'a.example.com%00.b:443',
      'a_b.example:443',
      '-a.example:443',
      'a..b:443',
      '[fe80::1%25eth0]:443',
      '2130706433:80',
    ],
  ],
  absolute: [
    ...[
      'http://a.example.com/x?y',
      'HTTP://A.example.com:80/',
      'http://a.example.com?x=/y',
      'http://a.example.com',
    ],
    ...[
      'http://a.example.com:8080/a/%2e%2e/b',
      'http://a.example.com\\@b/',
      'http://a@b/',
      'http:///a',
      'http://a#@b/',
    ],
    ...[
      'http://a.example.com/@scope%2fname',
      'http://a.example.com//b',
      'http://a/..;/b',
      'http://[::1]/a',
      'http:/a/b',
    ],
  ],
  request: [
    'GET /x HTTP/1.1\r\nHost: a.example.com\r\n',
    'POST /x?y HTTP/1.1\r\nHost: a.example.com:443\r\nContent-Length: 5\r\n',
    'POST /x HTTP/1.1\r\nHost: A.example.com.\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n',
    'POST /x HTTP/1.0\r\nHost: a.example.com\r\nContent-Length: 5\r\nContent_Length: 6\r\nExpect: 100-continue\r\n',
    'GET /x HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-HTTP-Method: PUT\r\n',
  ],
  first: [
    'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: Bearer a.b.c\r\n\r\n',
    'GET http://a.example/ HTTP/1.1\r\nProxy-Authorization: Basic YTphLmIuYw==\r\n\r\n',
    'POST /model/v1/responses HTTP/1.1\r\nAuthorization: Bearer a.b.c\r\nContent-Length: 2\r\n\r\n{}',
    '\r\nPOST /model/v1/responses HTTP/1.1\r\nAuthorization: Bearer a.b.c\r\nProxy-Authorization: Bearer d.e.f\r\n\r\n',
    'CONNECT a.example:443\n\r\nProxy-Authorization: Bearer a.b.c\r\n\r\n',
    'M-SEARCH  /model HTTP/1.0\r\nProxy-Authorization:Bearer a.b.c\r\n x\r\nProxy-Authorization : Bearer d.e.f\r\n\r\n',
  ],
} as const

const LETTERS = [
  ...'ab.:/@?#%[]\\;,=+-_ \t\r\n\0"0129xX*',
  '%2e',
  '%2f',
  '..',
  '//',
  '\u00e9',
  '\u2025',
  'HOST',
  'chunked',
  '\r\n',
]

/** Numbers that depend only on the seed, so that a run can be repeated. */
export function randomBelow(seed: number): (limit: number) => number {
  let state = seed >>> 0
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
  }
}

type Below = ReturnType<typeof randomBelow>
const oneOf = <T>(below: Below, list: readonly T[]): T => list[below(list.length)] as T

export function mutated(below: Below, seeds: readonly string[]): string {
  let text = oneOf(below, seeds)
  if (below(8) === 0) text = text.slice(0, below(text.length + 1)) + oneOf(below, seeds).slice(below(20))
  for (let edits = below(4); edits > 0; edits -= 1) {
    const at = below(text.length + 1)
    text = text.slice(0, at) + (below(3) > 0 ? oneOf(below, LETTERS) : '') + text.slice(at + below(3))
  }
  return text
}

const withDefault = (port: string, fallback: string) => (port === '' ? fallback : port)
const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')

/** Compares with the URL parser of Node, which undici uses too. Throws if it reads another host, port or path. */
function compareUrl(accepted: Accepted, url: string): Accepted {
  const { hostname, port, pathname, search, username, hash } = new URL(url)
  const path = accepted.kind === 'absolute' ? ` ${pathname}${search}` : ''
  const reading = `${bare(hostname)}:${withDefault(port, '80')}${path}`
  // The query is not judged, and the URL parser encodes some of its characters.
  const same = (text: string) =>
    text
      .replaceAll("'", '%27')
      .replaceAll('"', '%22')
      .replaceAll('<', '%3C')
      .replaceAll('>', '%3E')
      .replace(/\?$/, '')
  if (same(reading) !== same(accepted.reading) || username !== '' || hash !== '')
    throw new Error(`${JSON.stringify(url)} is read as ${reading}, not ${accepted.reading}`)
  return accepted
}

function authority(below: Below): Accepted | undefined {
  const text = mutated(below, SEEDS.authority)
  const parsed = parseAuthority(text)
  if (!parsed.ok) return undefined
  const { host, port } = parsed.target
  return compareUrl(
    { kind: 'authority', input: Buffer.from(text), reading: `${host.name}:${port}` },
    `http://${text}/`,
  )
}

function absolute(below: Below): Accepted | undefined {
  const text = mutated(below, SEEDS.absolute)
  const parsed = parseAbsoluteForm(text)
  if (!parsed.ok || !parsePath(parsed.path).ok) return undefined
  const { host, port } = parsed.target
  const reading = `${host.name}:${port} ${parsed.path}`
  return compareUrl({ kind: 'absolute', input: Buffer.from(text), reading }, text)
}

function hello(below: Below): Accepted | undefined {
  const names = ['a.example.com', 'b.example.com', '', 'a.example.com.', 'A']
  const extensions = [serverName(oneOf(below, names)), [43, [2, 3, 4]], [10, [0, 2, 0, 29]]] as const
  const message = helloMessage(below(4) === 0 ? [...extensions, serverName('b')] : extensions)
  const bytes = below(3) === 0 ? fragmented(message, 1 + below(200)) : record(message)
  for (let edits = below(4); edits > 0; edits -= 1) bytes[below(bytes.length)] = below(256)
  const reading = readClientHello(bytes, 16_384)
  // The name must equal the name in CONNECT.
  if (reading.kind !== 'hello' || parseHostName(reading.serverName).kind !== 'name') return undefined
  return { kind: 'hello', input: bytes.subarray(0, reading.length), reading: reading.serverName }
}

const target = parseAuthority('a.example.com:443')

/** A request as the proxy sends it. Header names and values may contain what no parser passes. */
function request(below: Below): Accepted | undefined {
  const [first = '', ...lines] = mutated(below, SEEDS.request).split('\r\n').slice(0, 8)
  const [method = '', path = '', version = ''] = first.split(' ')
  const rawHeaders = lines.flatMap((line) => {
    const at = line.indexOf(':')
    return at < 0 ? [] : [line.slice(0, at), line.slice(at + 1).trim()]
  })
  const head = { method, rawHeaders, httpVersion: version.replace('HTTP/', '') }
  if (!target.ok || !/^[A-Z]{1,10}$/.test(method)) return undefined
  const read = readRequest(head, { target: target.target, path, protocol: 'https' })
  if (!read.ok) return undefined
  const coding = pairs(rawHeaders).some(([name]) => name.toLowerCase() === 'transfer-encoding')
  const [, length = '0'] = pairs(rawHeaders).find(([name]) => name.toLowerCase() === 'content-length') ?? []
  const kept = pairs(forwardedHeaders(rawHeaders, ['host', 'expect']))
  const framing: [string, string][] = coding ? [['Transfer-Encoding', 'chunked']] : []
  const sent = [['Host', 'a.example.com'] as const, ...kept, ...framing].map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  const input = Buffer.from(`${method} ${path} HTTP/1.1\r\n${sent.join('')}\r\n`, 'latin1')
  const upgrade = read.facts.needs.includes('websocket')
  const accepted: Accepted = {
    kind: 'request',
    input,
    reading: `${method} ${path} ${coding ? -1 : Number(length)}${upgrade ? ' upgrade' : ''}`,
  }
  compareHost(rawHeaders)
  compareFraming(accepted, coding ? '0\r\n\r\n' : '.'.repeat(Math.min(Number(length), MAX_BODY)))
  return accepted
}

/** The `Host` that was compared with the target of the connection must name it for the URL parser too. */
function compareHost(rawHeaders: readonly string[]): void {
  const [, value = ''] = pairs(rawHeaders).find(([name]) => name.toLowerCase() === 'host') ?? []
  const { hostname, port, username } = new URL(`https://${value}/`)
  if (bare(hostname) !== 'a.example.com' || port !== '' || username !== '')
    throw new Error(`${JSON.stringify(value)} is read as ${hostname}:${port}`)
}

/** The parser of undici and Node must read exactly this request, with this body and nothing after it. */
function compareFraming({ input, reading }: Accepted, body: string): void {
  const whole = Buffer.concat([input, Buffer.from(body)])
  const { messages, isRefused } = readByLlhttp(whole)
  if (isRefused) return
  const [message] = messages
  const [method, path, length] = reading.split(' ')
  const hosts = message?.headers.filter(([name]) => name.toLowerCase() === 'host') ?? []
  const isWhole = Number(length) <= MAX_BODY
  const isSame =
    messages.length === 1 &&
    message?.method === method &&
    message?.url === path &&
    hosts.length === 1 &&
    hosts[0]?.[1] === 'a.example.com' &&
    message?.isComplete === isWhole &&
    (length === '-1' ? message.body === '' : message?.body === body)
  if (!isSame)
    throw new Error(`${JSON.stringify(whole.toString('latin1'))} is read as ${JSON.stringify(messages)}`)
}

/** Longer bodies are not sent to the other parser. */
const MAX_BODY = 4096

/** The first request of a connection in a cluster, from which the proxy takes the token before Node parses it. */
function first(below: Below): Accepted | undefined {
  const input = Buffer.from(mutated(below, SEEDS.first), 'latin1')
  const head = headOf(input)
  const token = head === undefined ? undefined : tokenOf(head)
  if (head === undefined || token === undefined) return undefined
  const identified = (text: string, isModel: boolean) => `${tokenOf(text)} ${isModel}`
  const accepted: Accepted = { kind: 'first', input, reading: identified(head, isModelHead(head)) }
  const { messages, isRefused } = readByLlhttp(input.subarray(0, head.length + HEAD_END.length))
  const [message] = messages
  if (isRefused || !message) return accepted
  const lines = message.headers.map(([name, value]) => `${name}: ${value}`)
  const text = [`${message.method} ${message.url} HTTP/1.1`, ...lines].join('\r\n')
  const byPeer = identified(text, isForModel(message.url))
  if (!message.hasHead || byPeer !== accepted.reading)
    throw new Error(`${JSON.stringify(head)} is read as ${byPeer} by llhttp, not ${accepted.reading}`)
  return accepted
}

const HEAD_END = '\r\n\r\n'

const KINDS = [authority, absolute, hello, request, first]

/** Returns the accepted ones of `count` inputs. Throws if the URL parser reads one in another way. */
export function* acceptedInputs(seed: number, count: number): Generator<Accepted> {
  const below = randomBelow(seed)
  for (let index = 0; index < count; index += 1) {
    const accepted = KINDS[index % KINDS.length]?.(below)
    if (accepted) yield accepted
  }
}
