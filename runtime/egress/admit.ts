import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { EgressCaller, EgressDestination } from '../../contracts/egress.ts'
import type { Connections, OpenConnection } from './connections.ts'
import type { CredentialGate } from './credentials/gate.ts'
import { type Question, shownPath } from './decide.ts'
import { type Dialler, dial } from './dial.ts'
import { PRIVATE_REMEDY, type Refusal, statusOf } from './refusals.ts'
import { type Addressed, readRequest } from './request-rules.ts'
import { secure } from './upstream-tls.ts'

export interface AdmitOptions extends Dialler {
  readonly caller: EgressCaller
  readonly connections: Connections
  /** Why there is no room for one more connection. */
  readonly overload: () => Refusal | undefined
  /** Roots that a destination's certificate may have. @default the roots of Node */
  readonly roots?: readonly string[] | undefined
  /** Inserts credentials. Without it, destinations with a credential are not served. */
  readonly gate?: CredentialGate | undefined
}

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
  const connection = connections.begin(question, asked.client)
  const admission = await connect(options, asked, { connection, destination: decision.destination })
  if (!admission.ok) connections.end(connection)
  return admission
}

async function connect(
  options: AdmitOptions,
  asked: Asked,
  { connection, destination }: { connection: OpenConnection; destination: EgressDestination },
): Promise<Admission> {
  const { connections, limits, roots } = options
  const { target, protocol } = asked
  const { question } = connection
  const dialled = await dial(options, target, destination)
  if (!dialled.ok) {
    if (dialled.rule === undefined) return failed(asked, dialled.reason)
    const refusal = { rule: dialled.rule, reason: dialled.reason, remedy: PRIVATE_REMEDY }
    return deny(options, asked, refusal)
  }
  const { socket } = dialled
  connection.upstream = socket
  socket.on('error', () => socket.destroy())
  const secured = await (protocol === 'https'
    ? secure(socket, { servername: target.host.name, ca: roots, ms: limits.handshakeMs })
    : ({ ok: true, socket } as const))
  // The state may have changed since, or the client may be gone.
  const late = connections.decide(question)
  if (secured.ok && late.ok && !asked.isGone()) {
    // On the socket that reads: the one below TLS does not see activity.
    secured.socket.setTimeout(limits.idleMs, () => secured.socket.destroy())
    return { ok: true, connection, upstream: secured.socket, destination }
  }
  socket.destroy()
  if (!late.ok) return deny(options, asked, late.refusal)
  if (secured.ok) return failed(asked, 'the client left')
  if (!secured.isCertificate) return failed(asked, secured.reason)
  const remedy =
    'A person can check the server, or add its certificate authority to the file that AGENTWEAVER_EGRESS_ROOTS_FILE names.'
  return deny(options, asked, { rule: 'certificate', reason: secured.reason, remedy })
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
