import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { EgressCaller, EgressDestination } from '../../contracts/egress.ts'
import type { ReservationDecision, ReservationRequest } from '../../contracts/egress-budgets.ts'
import { type ConnectOptions, connectJudged } from './connect-judged.ts'
import type { OpenConnection } from './connections.ts'
import type { CredentialGate } from './credentials/gate.ts'
import { type Question, shownPath } from './decide.ts'
import { type Refusal, statusOf } from './refusals.ts'
import { type Addressed, readRequest } from './request-rules.ts'

export interface AdmitOptions extends ConnectOptions {
  readonly caller: EgressCaller
  /** Why there is no room for one more connection. */
  readonly overload: () => Refusal | undefined
  /** Inserts credentials. Without it, destinations with a credential are not served. */
  readonly gate?: CredentialGate | undefined
  /** Reserves the tokens of a request to a model. Without it, runs with a budget send none. */
  readonly reserve?: Reserve | undefined
}

export type Reserve = (request: ReservationRequest) => Promise<ReservationDecision>

/** A request that the proxy reads, and the client's connection. */
export interface Asked extends Addressed {
  readonly request: IncomingMessage
  readonly client: Socket
  /** Whether the client no longer waits for the response. */
  readonly isGone: () => boolean
}

export type Admission =
  /** `connection` must be ended with the request. */
  | {
      readonly ok: true
      readonly connection: OpenConnection
      readonly upstream: Socket
      readonly destination: EgressDestination
    }
  | { readonly ok: false; readonly status: number; readonly sentence: string }

/** Judges a request, and connects to its destination. The connection serves only this request. */
export async function admit(options: AdmitOptions, asked: Asked): Promise<Admission> {
  const { caller, connections, overload } = options
  const read = readRequest(asked.request, asked)
  if (!read.ok) return deny(options, asked, read.refusal)
  const { target, protocol } = asked
  const question: Question = { ...target, caller, protocol, request: read.facts }
  const refused = overload()
  if (refused) return deny(options, asked, refused)
  const decision = connections.decide(question)
  if (!decision.ok) return deny(options, asked, decision.refusal)
  const { destination } = decision
  const overuse = connections.overuse(question, destination)
  if (overuse) return deny(options, asked, overuse)
  const connection = connections.begin(question, asked.client, { destination })
  const spent = connections.spend(connection, headBytes(asked.request))
  if (spent) {
    connections.end(connection)
    return deny(options, asked, spent)
  }
  const admission = await connect(options, asked, { connection, destination })
  if (!admission.ok) connections.end(connection)
  return admission
}

/** The size of a request without its body. */
const headBytes = ({ method = '', url = '', rawHeaders }: IncomingMessage): number =>
  rawHeaders.reduce((sum, part) => sum + part.length + 2, method.length + url.length + 12)

async function connect(
  options: AdmitOptions,
  asked: Asked,
  { connection, destination }: { connection: OpenConnection; destination: EgressDestination },
): Promise<Admission> {
  const { protocol, isGone } = asked
  const connected = await connectJudged(options, { connection, destination, protocol, isGone })
  if (connected.ok) return { ok: true, connection, upstream: connected.socket, destination }
  return connected.refusal ? deny(options, asked, connected.refusal) : failed(asked, connected.reason)
}

const failed = ({ target: { host, port } }: Asked, reason: string): Admission => ({
  ok: false,
  status: 502,
  sentence: `Connection to ${host.name}:${port} failed: ${reason}.`,
})

export function deny(
  { connections }: AdmitOptions,
  { target, request, path }: Asked,
  refusal: Refusal,
): Extract<Admission, { ok: false }> {
  const { host, port } = target
  const sentence = connections.refuse({
    ...refusal,
    host: host.name,
    port,
    method: request.method,
    path: shownPath(path),
  })
  return { ok: false, status: statusOf(refusal), sentence }
}
