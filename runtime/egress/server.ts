import { createInterface } from 'node:readline'
import * as z from 'zod'
import {
  CredentialAnswer,
  type EgressReport,
  EgressState,
  ReservationAnswer,
} from '../../contracts/egress.ts'
import { UPSTREAM_PROXY_KEY, UpstreamProxyUrl } from '../../contracts/egress-proxy-env.ts'
import { messageOf } from '../kit/errors.ts'
import { createLog } from '../kit/log.ts'
import { CredentialRequests } from './credentials/requests.ts'
import { CredentialValues } from './credentials/values.ts'
import { LoopbackPort } from './loopback-port.ts'
import { ReservationRequests } from './model/reservation-requests.ts'
import { EgressProxy } from './proxy.ts'
import { parseUpstreamProxy } from './upstream-proxy.ts'

/**
 * The process of the egress proxy on a laptop. The service that started it writes one state per line to standard input
 * and reads one report per line from standard output. The end of standard input ends the process, so the proxy does not
 * outlive the service. With the argument `credentials`, it is the process that inserts credentials, which asks the service
 * for their values.
 */
const report = (what: EgressReport) => void process.stdout.write(`${JSON.stringify(what)}\n`)
const requests = new CredentialRequests(report)
const reservations = new ReservationRequests(report)
const isBroker = process.argv[2] === 'credentials'
const upstream = UpstreamProxyUrl.optional().parse(process.env[UPSTREAM_PROXY_KEY])
const proxy = new EgressProxy({
  report,
  reserve: (request) => reservations.reserve(request),
  ...(upstream !== undefined && { upstream: parseUpstreamProxy(upstream) }),
  ...(isBroker && { credentials: new CredentialValues({ fetch: (key) => requests.fetch(key) }) }),
})

const log = createLog({ level: 'warn', write: (line) => void process.stderr.write(line) })
const loopback = new LoopbackPort(proxy, log)

/** The port is reported with the state that asks for it. */
async function apply({ listen, ...state }: EgressState): Promise<void> {
  const port = listen && (await loopback.use(listen))
  await proxy.apply(state)
  report({ type: 'applied', revision: state.revision, ...(port !== undefined && { port }) })
}

/** A proxy that may have missed a state must not keep enforcing an older one. */
function fail(error: unknown): never {
  process.stderr.write(`${messageOf(error)}\n`)
  proxy.close()
  return process.exit(1)
}

const Line = z.union([CredentialAnswer, ReservationAnswer, EgressState])

/** Without the parser's message, which quotes its input: a state contains private keys. */
function parseLine(line: string): z.infer<typeof Line> {
  try {
    return Line.parse(JSON.parse(line))
  } catch {
    return fail(new Error('the service sent a state that this egress proxy cannot read'))
  }
}

process.stdout.on('error', fail)
// Ctrl-C reaches every process of the terminal, but only the service decides when the proxy ends.
process.on('SIGINT', () => undefined)

let applying = Promise.resolve()
const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => {
  const parsed = parseLine(line)
  if (!('type' in parsed)) applying = applying.then(() => apply(parsed)).catch(fail)
  else if (parsed.type === 'credential') requests.answer(parsed)
  else reservations.answer(parsed)
})
lines.on('close', () => {
  proxy.close()
  process.exit(0)
})
