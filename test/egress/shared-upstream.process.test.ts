import { once } from 'node:events'
import { connect, createServer as createTcp, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTls } from 'node:tls'
import { describe, expect, it } from 'vitest'
import type { EgressDestination } from '../../contracts/egress.ts'
import { until } from '../helpers/until.ts'
import { rig as credentialRig, givenRun } from './cluster-credential-rig.ts'
import { modelRig, QUESTION, tokenOf } from './model-rig.ts'
import {
  authority,
  egressRoot,
  HOST,
  listening,
  portOf,
  proxyRig,
  received,
  TERMINATED,
  tlsThrough,
  tunnel,
} from './proxy-rig.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const POISON = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'

interface Attack {
  readonly what: string
  /** @default GET */
  readonly method?: 'GET' | 'HEAD' | 'POST'
  /** Headers and body of the attacker's request. */
  readonly rest?: string
  /** What the server sends at once. */
  readonly answer: string
  /** Whether the server sends the poison on the same connection when the next caller asks. */
  readonly isLate?: boolean
}

const SECOND = 'GET /poison HTTP/1.1\r\nX-Caller: attacker\r\n\r\n'

/** The attacker and the server of an allowed host work together. */
const ATTACKS: readonly Attack[] = [
  { what: 'bytes after a response with a length', answer: OK + POISON },
  {
    what: 'bytes after the last chunk',
    answer: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${POISON}`,
  },
  {
    what: 'bytes after the response to HEAD',
    method: 'HEAD',
    answer: `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n${POISON}`,
  },
  { what: 'bytes after a response without a body', answer: `HTTP/1.1 204 No Content\r\n\r\n${POISON}` },
  { what: 'an informational response first', answer: `HTTP/1.1 103 Early Hints\r\n\r\n${OK}${POISON}` },
  {
    what: 'a response before the end of the request',
    method: 'POST',
    rest: 'Content-Length: 100\r\n\r\nsome',
    answer: OK + POISON,
  },
  {
    what: 'a response to a request in the body of another one',
    method: 'POST',
    rest: `Content-Length: ${SECOND.length}\r\n\r\n${SECOND}`,
    answer: POISON,
  },
  { what: 'a second response that comes later', answer: OK, isLate: true },
  { what: 'the response to a client that has left', answer: '', isLate: true },
]

const REQUEST =
  /(?:GET|HEAD|POST) (\/\w+) HTTP\/1\.1\r\n(?:[^\r]+\r\n)*?X-Caller: (\w+)\r\n(?:[^\r]+\r\n)*\r\n/

/** A server that attacks at `/poison`, and answers every other request with the name of its caller. */
async function poisoner({ answer, isLate = false }: Attack, isTls: boolean) {
  const connections: Set<string>[] = []
  const armed = new Set<Socket>()
  const serve = (socket: Socket) => {
    const callers = new Set<string>()
    connections.push(callers)
    let text = ''
    const answerTo = (path: string | undefined, caller = '') => {
      callers.add(caller)
      if (path === '/poison') {
        if (isLate) armed.add(socket)
        socket.write(answer)
        return
      }
      for (const one of armed) one.write(POISON)
      const body = `clean for ${caller}`
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    }
    socket.on('error', () => socket.destroy())
    socket.on('data', (data) => {
      text += data.toString('latin1')
      for (let found = REQUEST.exec(text); found; found = REQUEST.exec(text)) {
        text = text.slice(found.index + found[0].length)
        answerTo(found[1], found[2])
      }
    })
  }
  const server = await listening(isTls ? createTls(authority.serverFor(HOST), serve) : createTcp(serve))
  return { port: portOf(server), connections }
}

interface Transport {
  readonly entry: Partial<EgressDestination>
  readonly isTls: boolean
  /** What stands before the path in the first line. */
  readonly prefix: (target: string) => string
  readonly open: (socketPath: string, target: string) => Promise<Socket>
}

const HTTP = { entry: { http: 'allow' }, isTls: false } as const
const TRANSPORTS: readonly (readonly [string, Transport])[] = [
  [
    'inside TLS',
    {
      entry: TERMINATED,
      isTls: true,
      prefix: () => '',
      open: (socketPath, target) =>
        tlsThrough(socketPath, target, { servername: HOST, ca: egressRoot.certificate }),
    },
  ],
  ['without TLS', { ...HTTP, prefix: (target) => `http://${target}`, open: async (path) => connect(path) }],
  ['without TLS in a tunnel', { ...HTTP, prefix: () => '', open: tunnel }],
]

const firstLine = ({ method = 'GET' }: Pick<Attack, 'method'>, path: string) => `${method} ${path} HTTP/1.1`
const ofCaller = (line: string, host: string, caller: string) =>
  `${line}\r\nHost: ${host}\r\nX-Caller: ${caller}\r\n`
const bodyOf = (response: string) => response.slice(response.indexOf('\r\n\r\n') + 4)

/** Whether the attacker has its response. Without one, it leaves when the server has the request. */
const isAnswered = (text: string) =>
  /\r\n\r\n(?:ok|poison)?/.test(text.replace(/^HTTP\/1\.1 103.*?\r\n\r\n/s, ''))

describe.each(TRANSPORTS)('a response that a caller prepares %s', (_name, { entry, isTls, prefix, open }) => {
  it.each(ATTACKS)('reaches no other caller: $what', async (attack) => {
    const { port, connections } = await poisoner(attack, isTls)
    const rig = await proxyRig({ ports: [port], entry })
    const pathOf = (name: string) => join(rig.folder, name)
    await rig.apply(
      rig.generation({
        runId: 'attacked',
        socketPath: pathOf('command'),
        agentHostSocketPath: pathOf('agent'),
      }),
      rig.generation({ runId: 'other', socketPath: pathOf('other') }),
    )
    const target = `${HOST}:${port}`
    const victims = ['command', 'agent', 'other'].map(async (caller) => {
      const socket = await open(pathOf(caller), target)
      return { caller, socket, ...received(socket) }
    })
    const answers = await Promise.all(victims)
    const attacker = await open(pathOf('command'), target)
    const { text } = received(attacker)

    const line = firstLine(attack, `${prefix(target)}/poison`)
    attacker.write(`${ofCaller(line, target, 'attacker')}${attack.rest ?? '\r\n'}`)
    await until('the server attacks', () => connections.some((callers) => callers.has('attacker')))
    if (attack.answer === '') attacker.destroy()
    else await until('the attacker has its response', () => isAnswered(text()))
    expect(answers.map((one) => one.text())).toEqual(['', '', ''])
    for (const { caller, socket } of answers)
      socket.write(
        `${ofCaller(firstLine({}, `${prefix(target)}/x`), target, caller)}Connection: close\r\n\r\n`,
      )
    const responses = await Promise.all(answers.map(({ closed }) => closed))

    expect(responses.map((one) => bodyOf(one.toString('latin1')))).toEqual(
      answers.map(({ caller }) => `clean for ${caller}`),
    )
    // No two requests share a connection to the server.
    expect(connections.filter((callers) => callers.size > 0).map((callers) => callers.size)).toEqual([
      1, 1, 1, 1,
    ])
    attacker.destroy()
  })
})

describe('a response of the model server that an agent prepares', () => {
  const attacks = ATTACKS.filter(({ method }) => method === undefined)
  it.each(attacks)('reaches no other run: $what', async ({ answer, isLate }) => {
    const connections: Socket[] = []
    const rig = await modelRig({
      hasKey: false,
      answer: ({ socket }, response) => {
        const [first] = connections
        connections.push(socket)
        if (!first) socket.write(answer)
        else {
          if (isLate) first.write(POISON)
          response.end('clean')
        }
      },
    })
    await rig.apply(rig.state({}, 'attacked'), rig.state({}, 'other'))
    const left = new AbortController()
    const askAs = async (runId: string, signal?: AbortSignal) =>
      rig.ask(QUESTION, { token: await tokenOf({ runId }), ...(signal && { signal }) })

    const attack = askAs('attacked', left.signal)
    await until('the server attacks', () => connections.length === 1)
    if (answer === '') left.abort()
    await attack.catch(() => undefined)

    expect((await askAs('other')).text).toBe('clean')
    expect((await askAs('attacked')).text).toBe('clean')
    expect(new Set(connections).size).toBe(3)
  })
})

describe('a response of a host with a credential that a command prepares', () => {
  it.each(ATTACKS.filter(({ method, answer }) => method === undefined && answer !== ''))(
    'reaches no other run: $what',
    async ({ answer, isLate }) => {
      const connections: Socket[] = []
      const all = await credentialRig(({ socket }, response) => {
        const [first] = connections
        connections.push(socket)
        if (!first) socket.write(answer)
        else {
          if (isLate) first.write(POISON)
          response.end('clean')
        }
      })
      const attacker = await givenRun(all)
      const other = await givenRun(all)

      await attacker.get()

      expect(await other.get()).toMatch(/\r\n\r\nclean$/)
      expect(await attacker.get()).toMatch(/\r\n\r\nclean$/)
      expect(new Set(connections).size).toBe(3)
    },
  )
})

/** The first response in a stream, as a correct parser reads it. Undefined if it is not complete. */
function firstResponse(
  text: string,
  method: string,
): { readonly body: string; readonly rest: string } | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [head, after] = [text.slice(0, end), text.slice(end + 4)]
  if (head.startsWith('HTTP/1.1 103')) return firstResponse(after, method)
  const isBodiless = method === 'HEAD' || head.startsWith('HTTP/1.1 204')
  const [, digits] = /Content-Length: (\d+)/.exec(head) ?? []
  const length = isBodiless ? 0 : Number(digits ?? after.indexOf('0\r\n\r\n') + 5)
  return after.length < length ? undefined : { body: after.slice(0, length), rest: after.slice(length) }
}

describe('a forwarder whose callers share one connection', () => {
  it.each(ATTACKS)('gives the poison to the next caller: $what', async (attack) => {
    const { port, connections } = await poisoner(attack, false)
    const shared = connect(port, '127.0.0.1')
    await once(shared, 'connect')
    let bytes = ''
    shared.on('data', (data) => {
      bytes += data.toString('latin1')
    })
    const nextBody = async (method = 'GET') => {
      await until('a response has arrived', () => firstResponse(bytes, method) !== undefined)
      const { body = '', rest = '' } = firstResponse(bytes, method) ?? {}
      bytes = rest
      return body
    }

    const line = firstLine(attack, '/poison')
    shared.write(`${ofCaller(line, HOST, 'attacker')}${attack.rest ?? '\r\n'}`)
    await until('the server attacks', () => connections.some((callers) => callers.has('attacker')))
    if (attack.answer !== '') await nextBody(attack.method)
    shared.write(`${ofCaller(firstLine({}, '/x'), HOST, 'other')}\r\n`)

    expect(await nextBody()).toBe('poison')
    shared.destroy()
  })
})
