import { EGRESS_LIMITS } from '../../runtime/egress/limits.ts'
import { EgressProxy, type IdentifiedCaller } from '../../runtime/egress/proxy.ts'
import { mutated, randomBelow } from './differential.ts'
import { asSocket, valuesOf, Wire } from './differential-messages.ts'
import { type LlhttpMessage, readByLlhttp } from './llhttp.ts'

/** Starting points of the mutations: the first request of a client of the proxy. */
const SEEDS = [
  'CONNECT a.example.com:443 HTTP/1.1\r\nHost: a.example.com:443\r\n\r\n',
  'CONNECT A.example.com.:8443 HTTP/1.1\r\nHost: a.EXAMPLE.com\r\nProxy-Connection: keep-alive\r\n\r\n',
  'CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:DB8::1]:443\r\n\r\n',
  'CONNECT a.example.com:443 HTTP/1.0\r\n\r\n',
  'CONNECT a.example.com:80@b.example.com:443 HTTP/1.1\r\nHost: b.example.com\r\n\r\n',
  'GET http://a.example.com/x?y HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n\r\n',
  'GET HTTP://A.example.com:8080/x HTTP/1.1\r\nHost: a.example.com:8080\r\nConnection: close\r\n\r\n',
  'GET http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\nCONNECT b.example.com:443 HTTP/1.1\r\nHost: b.example.com\r\n\r\n',
  'GET http://user@a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n\r\n',
  'GET http://a.example.com\\@b.example.com/ HTTP/1.1\r\nHost: b.example.com\r\nConnection: close\r\n\r\n',
]

const CALLER: IdentifiedCaller = {
  ...{ runId: 'run', generation: 1, caller: 'commands', token: 'a.b.c' },
  ...{ podUid: 'pod', address: '127.0.0.1' },
}

/** A proxy whose list is empty: it parses a target, and names it in the refusal. */
async function proxyWithoutHosts(): Promise<EgressProxy> {
  const proxy = new EgressProxy({ report: () => undefined, limits: EGRESS_LIMITS })
  const pod = { uid: CALLER.podUid, addresses: [CALLER.address] }
  const generation = { runId: CALLER.runId, generation: 1, phase: 'work', pod, destinations: [] } as const
  await proxy.apply({ revision: 1, generations: [{ ...generation, destinations: [] }] })
  return proxy
}

const NOT_LISTED =
  /^HTTP\/1\.1 403 .*\r\nagentweaver-egress: Connection to (\S+):(\d+) refused: the host is not in the list/is

/** `host:port` as the proxy has read it. Undefined if it refuses the request for another reason. */
async function readByProxy(proxy: EgressProxy, bytes: Buffer): Promise<string | undefined> {
  let answer = ''
  const client = new Wire((chunk) => {
    answer += chunk.toString('latin1')
  })
  proxy.accept(CALLER, asSocket(client), { isModel: false })
  client.push(bytes)
  for (let turns = 0; turns < TURNS && !answer.includes('\r\n\r\n') && !client.destroyed; turns += 1)
    await new Promise((resolve) => setImmediate(resolve))
  client.destroy()
  const [, host, port] = NOT_LISTED.exec(answer) ?? []
  return host === undefined ? undefined : `${host}:${port}`
}

/** An incomplete request gets no answer. */
const TURNS = 6

const DEFAULT_PORT = '80'

/** `host:port` of a URL, as the URL parser reads it. */
function targetIn(url: string, defaultPort = DEFAULT_PORT): string {
  if (!URL.canParse(url)) return `no URL: ${url}`
  const { hostname, port, username, password } = new URL(url)
  const user = `${username}${password}`
  return `${user}${hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')}:${port === '' ? defaultPort : port}`
}

/** The targets in the request line and in `Host`, as the parsers of undici and of URLs read them. */
function targetsOf(message: LlhttpMessage): string[] {
  const isTunnel = message.method === 'CONNECT'
  const target = targetIn(isTunnel ? `http://${message.url}/` : message.url)
  const hosts = valuesOf(message, 'host').map((value) => {
    // llhttp leaves it to its user to remove white space at the end.
    const host = value.replace(/[ \t]+$/, '')
    // Some clients send CONNECT with a `Host` without the port.
    const isWithoutPort = isTunnel && !/:\d+$/.test(host)
    return targetIn(
      `http://${host}/`,
      isWithoutPort ? target.slice(target.lastIndexOf(':') + 1) : DEFAULT_PORT,
    )
  })
  return [target, ...hosts]
}

/**
 * Sends mutated first requests to a proxy, and returns the number of targets that it has read. Throws if other parsers read
 * another target in the request line or in `Host`.
 */
export async function readTargets(seed: number, count: number): Promise<number> {
  const below = randomBelow(seed)
  const proxy = await proxyWithoutHosts()
  let read = 0
  for (let index = 0; index < count; index += 1) {
    const bytes = Buffer.from(mutated(below, SEEDS), 'latin1')
    const target = await readByProxy(proxy, bytes)
    if (target === undefined) continue
    read += 1
    const { messages, isRefused } = readByLlhttp(bytes)
    const [message] = messages
    if (isRefused && !message?.hasHead) continue
    const others = message ? targetsOf(message) : ['no request']
    if (others.some((other) => other !== target))
      throw new Error(
        `${JSON.stringify(bytes.toString('latin1'))} is read as ${others.join(', ')}, not ${target}`,
      )
  }
  proxy.close()
  return read
}
