import type { Socket } from 'node:net'
import type { EgressDestination } from '../../contracts/egress.ts'
import type { Connections, OpenConnection } from './connections.ts'
import { type Dialable, type Dialler, dial } from './dial.ts'
import { PRIVATE_REMEDY, type Refusal } from './refusals.ts'
import { secure } from './upstream-tls.ts'

export interface ConnectOptions extends Dialler {
  readonly connections: Connections
  /** Roots that a destination's certificate may have. @default the roots of Node */
  readonly roots?: readonly string[] | undefined
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

/**
 * Connects a judged request with a checked address of its destination. Judges it again at the end, because the state may have
 * changed and the client may have left.
 */
export async function connectJudged(
  options: ConnectOptions,
  { connection, destination, protocol, isGone }: Judged,
): Promise<Connected> {
  const { connections, limits, roots } = options
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
  const secured = await (protocol === 'https'
    ? secure(socket, { servername: question.host.name, ca: roots, ms: limits.handshakeMs })
    : ({ ok: true, socket } as const))
  const late = connections.decide(question)
  if (secured.ok && late.ok && !isGone()) {
    // On the socket that reads: the one below TLS does not see activity.
    secured.socket.setTimeout(limits.idleMs, () => secured.socket.destroy())
    return { ok: true, socket: secured.socket }
  }
  socket.destroy()
  if (!late.ok) return { ok: false, refusal: late.refusal }
  if (secured.ok) return { ok: false, reason: 'the client left' }
  const { reason, isCertificate } = secured
  return isCertificate
    ? { ok: false, refusal: { rule: 'certificate', reason, remedy: CERTIFICATE_REMEDY } }
    : { ok: false, reason }
}
