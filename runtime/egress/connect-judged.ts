import type { Socket } from 'node:net'
import type { EgressDestination } from '../../contracts/egress.ts'
import type { Connections, OpenConnection } from './connections.ts'
import { type CredentialGate, type FoundCertificate, NO_CREDENTIALS } from './credentials/gate.ts'
import { type Dialable, type Dialler, dial } from './dial.ts'
import { PRIVATE_REMEDY, type Refusal } from './refusals.ts'
import { type Secured, secure } from './upstream-tls.ts'

export interface ConnectOptions extends Dialler {
  readonly connections: Connections
  /** Roots that a destination's certificate may have. @default the roots of Node */
  readonly roots?: readonly string[] | undefined
  /** Has the client certificates. Without it, destinations with one are not served. */
  readonly gate?: CredentialGate | undefined
}

export interface Judged {
  readonly connection: OpenConnection
  readonly destination: EgressDestination & Dialable
  readonly protocol: 'http' | 'https'
  /** Whether the client no longer waits for the response. */
  readonly isGone: () => boolean
}

export type Connected =
  | { readonly ok: true; readonly socket: Socket }
  | { readonly ok: false; readonly refusal: Refusal }
  /** The network failed. */
  | { readonly ok: false; readonly refusal?: undefined; readonly reason: string }

const CERTIFICATE_REMEDY =
  'A person can check the server, or add its certificate authority to the file that AGENTWEAVER_EGRESS_ROOTS_FILE names.'

const NO_TLS: Refusal = {
  rule: 'plain-http',
  reason: 'the egress proxy connects to this host with a client certificate, which needs TLS',
  remedy: 'Use https.',
}

/**
 * Connects a judged request with a checked address of its destination, with a client certificate if the destination has one.
 * Judges it again before and after the TLS handshake, because the state may have changed and the client may have left.
 */
export async function connectJudged(options: ConnectOptions, judged: Judged): Promise<Connected> {
  const { credential, credentialKind } = judged.destination
  if (credential === undefined || credentialKind === undefined) return connectWith(options, judged)
  if (judged.protocol !== 'https') return { ok: false, refusal: NO_TLS }
  const { host } = judged.connection.question
  const found = await options.gate?.certificateFor(credential, host.name)
  if (!found) return { ok: false, refusal: NO_CREDENTIALS.refusal }
  return found.ok ? connectWith(options, judged, found) : found
}

async function connectWith(
  options: ConnectOptions,
  judged: Judged,
  found?: Extract<FoundCertificate, { ok: true }>,
): Promise<Connected> {
  const { limits, roots: ca } = options
  const { connection, destination, protocol } = judged
  const { question } = connection
  const dialled = await dial(options, question, destination)
  if (!dialled.ok) {
    const { rule, reason } = dialled
    return rule === undefined
      ? { ok: false, reason }
      : { ok: false, refusal: { rule, reason, remedy: PRIVATE_REMEDY } }
  }
  const { socket } = dialled
  connection.upstream = socket
  socket.on('error', () => socket.destroy())
  const early = lateFault(options, judged)
  if (early) {
    socket.destroy()
    return early
  }
  found?.announce()
  const tls = { servername: question.host.name, ca, client: found?.certificate, ms: limits.handshakeMs }
  const secured = await (protocol === 'https' ? secure(socket, tls) : ({ ok: true, socket } as const))
  const late = lateFault(options, judged)
  if (secured.ok && !late) {
    // On the socket that reads: the one below TLS does not see activity.
    secured.socket.setTimeout(limits.idleMs, () => secured.socket.destroy())
    return { ok: true, socket: secured.socket }
  }
  socket.destroy()
  if (late?.refusal) return late
  return secured.ok ? GONE : refusedBy(secured)
}

const GONE = { ok: false, reason: 'the client left' } as const

/** Why the connection is no longer wanted. */
function lateFault(
  { connections }: ConnectOptions,
  { connection, isGone }: Judged,
): Extract<Connected, { ok: false }> | undefined {
  const decision = connections.decide(connection.question)
  if (!decision.ok) return { ok: false, refusal: decision.refusal }
  return isGone() ? GONE : undefined
}

const refusedBy = ({ isCertificate, reason }: Extract<Secured, { ok: false }>): Connected =>
  isCertificate
    ? { ok: false, refusal: { rule: 'certificate', reason, remedy: CERTIFICATE_REMEDY } }
    : { ok: false, reason }
