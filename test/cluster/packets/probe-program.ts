/**
 * The program of all probe pods, network namespaces and nodes. It is passed as text on a command line, with its types
 * removed, so it imports only modules of Node.js. `listen` accepts every connection and datagram on the given ports
 * until it is stopped. `probe` reads one question per line, `{ id, timeoutMs, cells }`, and writes one line per result,
 * `{ id, outcomes }`.
 */
import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { connect, createServer, isIP } from 'node:net'
import { createInterface } from 'node:readline'
import type { Cell, Outcome } from './cell.ts'

interface Listen {
  /**
   * A response must come from the address that received the datagram, so the program opens a socket for each address.
   */
  readonly addresses: readonly string[]
  readonly tcp: readonly number[]
  readonly udp: readonly number[]
  /**
   * Cells that the process tries repeatedly from its start on. The log contains the number of rounds and the successful
   * cells.
   */
  readonly early: readonly Cell[]
}

interface Question {
  readonly id: number
  readonly timeoutMs: number
  readonly cells: readonly Cell[]
}

/**
 * Maximum of concurrent attempts. Nearly all attempts of a question run concurrently, so that one timeout covers all
 * closed ports.
 */
const AT_ONCE = 512
const GREETING = 'here\n'
const EARLY = { forMs: 3_000, timeoutMs: 200 }
const REFUSED = ['ECONNREFUSED', 'ECONNRESET']
const NAME_OUTCOMES: Readonly<Record<string, Outcome>> = {
  EREFUSED: 'name refused',
  ENOTFOUND: 'name unknown',
  ENODATA: 'name unknown',
  // A resolver without a record and without an upstream server returns this error.
  ESERVFAIL: 'name unknown',
}

const [mode = '', argument = '{}'] = process.argv.slice(1)
if (mode === 'listen') listen(JSON.parse(argument) as Listen)
if (mode === 'probe') answerLines()

function listen({ addresses, tcp, udp, early }: Listen): void {
  if (early.length > 0) void tryEarly(early)
  for (const port of tcp) {
    const server = createServer((socket) => {
      socket.on('error', () => socket.destroy()).resume()
      socket.end(GREETING)
    })
    server.listen(port, '0.0.0.0')
  }
  for (const host of addresses) {
    for (const port of udp) {
      const socket = createSocket('udp4')
      socket.on('message', (_, { address, port: from }) => socket.send(GREETING, from, address))
      socket.bind(port, host)
    }
  }
  process.on('SIGTERM', () => process.exit())
}

async function tryEarly(cells: readonly Cell[]): Promise<void> {
  const end = Date.now() + EARLY.forMs
  const arrived = new Set<string>()
  let rounds = 0
  while (Date.now() < end) {
    const trying = createTrying(EARLY.timeoutMs)
    const outcomes = await Promise.all(cells.map((cell) => attempt(cell, trying)))
    for (const [index, outcome] of outcomes.entries()) {
      if (outcome === 'open' || outcome === 'refused') arrived.add(cells[index]?.host ?? '')
    }
    rounds += 1
  }
  process.stdout.write(`${JSON.stringify({ rounds, arrived: [...arrived] })}\n`)
}

function answerLines(): void {
  createInterface({ input: process.stdin })
    .on('line', (line) => {
      void answer(JSON.parse(line) as Question)
    })
    .on('close', () => process.exit())
  process.stdout.write('{"id":0,"outcomes":[]}\n')
}

async function answer({ id, timeoutMs, cells }: Question): Promise<void> {
  const outcomes: Outcome[] = []
  const trying = createTrying(timeoutMs)
  const todo = cells.entries()
  const work = async () => {
    for (const [index, cell] of todo) outcomes[index] = await attempt(cell, trying)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  process.stdout.write(`${JSON.stringify({ id, outcomes })}\n`)
}

type Found = { readonly address: string } | { readonly outcome: Outcome }

/** State that the attempts of one question share: the timeout after silence, and the results of name lookups. */
interface Trying {
  /** A sign of life of any of them. */
  heard(): void
  /** Registers an attempt that waits for a response. The returned function ends the wait. */
  wait(giveUp: () => void): () => void
  lookUp(name: string): Promise<Found>
}

/**
 * All waiting attempts are abandoned once no attempt has started or received data for `silenceMs`. On a busy machine,
 * late responses therefore extend the wait for all attempts. Data that has already arrived is read first.
 */
function createTrying(silenceMs: number): Trying {
  const waiting = new Set<() => void>()
  const names = new Map<string, Promise<Found>>()
  let heardAt = performance.now()
  let isArmed = false
  const heard = () => {
    heardAt = performance.now()
  }
  const arm = (ms: number) => {
    isArmed = true
    setTimeout(() => setImmediate(check), ms)
  }
  const check = () => {
    isArmed = false
    if (waiting.size === 0) return
    const left = heardAt + silenceMs - performance.now()
    if (left > 0) arm(left)
    else for (const giveUp of [...waiting]) giveUp()
  }
  return {
    heard,
    wait(giveUp) {
      heard()
      waiting.add(giveUp)
      if (!isArmed) arm(silenceMs)
      return () => waiting.delete(giveUp)
    },
    lookUp(name) {
      const found = names.get(name) ?? lookUp(name, silenceMs)
      names.set(name, found)
      return found
    },
  }
}

async function attempt({ protocol, host, port }: Cell, trying: Trying): Promise<Outcome> {
  const found = isIP(host) ? { address: host } : await trying.lookUp(host)
  if ('outcome' in found) return found.outcome
  const send = protocol === 'TCP' ? attemptTcp : attemptUdp
  return send(found.address, port, trying)
}

/** A lookup with enough time is repeated, as in a resolver, because a busy machine sometimes loses a datagram. */
const RETRY_MS = 1_000

async function lookUp(name: string, timeoutMs: number): Promise<Found> {
  try {
    const patience = timeoutMs > RETRY_MS ? { timeout: RETRY_MS, tries: 3 } : { timeout: timeoutMs, tries: 1 }
    const [address] = await new Resolver(patience).resolve4(name)
    return address ? { address } : { outcome: 'name unknown' }
  } catch (error) {
    return { outcome: NAME_OUTCOMES[codeOf(error)] ?? 'name dropped' }
  }
}

/**
 * The port counts as open only when the peer has sent data or closed the connection, because an intermediary could have
 * accepted the connection.
 */
function attemptTcp(host: string, port: number, trying: Trying): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const finish = (outcome: Outcome) => {
      stopWaiting()
      socket.destroy()
      resolve(outcome)
    }
    const answered = (outcome: Outcome) => {
      trying.heard()
      finish(outcome)
    }
    const stopWaiting = trying.wait(() => finish('dropped'))
    let isConnected = false
    socket.on('connect', () => {
      trying.heard()
      isConnected = true
      // A TLS server sends nothing first, and closes the connection on invalid data.
      socket.write('hello\n\n')
    })
    socket.on('data', () => answered('open'))
    socket.on('end', () => answered('open'))
    socket.on('error', (error) => answered(isConnected ? 'open' : outcomeOf(error)))
  })
}

function attemptUdp(host: string, port: number, trying: Trying): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4')
    const finish = (outcome: Outcome) => {
      stopWaiting()
      socket.close()
      resolve(outcome)
    }
    const answered = (outcome: Outcome) => {
      trying.heard()
      finish(outcome)
    }
    const stopWaiting = trying.wait(() => finish('dropped'))
    socket.on('message', () => answered('open'))
    socket.on('error', (error) => answered(outcomeOf(error)))
    // Only a connected UDP socket reports that the port has no listener.
    socket.connect(port, host, () => socket.send('hello'))
  })
}

function outcomeOf(error: unknown): Outcome {
  const code = codeOf(error)
  if (REFUSED.includes(code)) return 'refused'
  return code === 'ETIMEDOUT' ? 'dropped' : 'unreachable'
}

function codeOf(error: unknown): string {
  return String((error as { code?: unknown }).code)
}
