import type { FastifyRequest } from 'fastify'
import { AlreadyConfigured, ConfigureReply, ConfigureRequest } from '../../../contracts/configure.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { bearerOf } from '../guard.ts'
import type { HostStatus } from '../state.ts'
import { assertTicketCovers, type Ticket, type TicketCheck, verifyTicket } from './ticket.ts'

/** The ticket of a request, which covers its raw body. */
export function ticketOf(request: FastifyRequest, check: TicketCheck): Promise<Ticket> {
  const ticket = bearerOf(request)
  if (ticket === undefined) throw new SandboxError('unauthenticated', 'a ticket is required')
  return verifyTicket(ticket, check)
}

/** The body of a request whose ticket is in order. The ticket is always judged first. */
export function bodyUnder(ticket: Ticket | undefined, request: FastifyRequest): ConfigureRequest {
  const raw = request.body instanceof Buffer ? request.body : Buffer.alloc(0)
  if (ticket === undefined) throw new SandboxError('unauthenticated', 'a ticket is required')
  assertTicketCovers(ticket, raw)
  const body = ConfigureRequest.parse(parseJson(raw))
  if (body.runId !== ticket.sub) throw new SandboxError('unauthenticated', 'the ticket is for another run')
  return body
}

function parseJson(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch (error) {
    throw notJson(error)
  }
}

const notJson = (cause: unknown) =>
  new SandboxError('invalid_request', `the body is not JSON: ${messageOf(cause)}`, { cause })

export const configured = (runId: string) => ConfigureReply.parse({ configured: true, runId })

/** A second call with a valid ticket learns which run holds the sandbox, and that it is not the one who asks. */
export function holderOf(status: HostStatus) {
  if (status.state === 'starting')
    throw new SandboxError('not_configured', 'the runners are not connected yet')
  const taken = 'taken' in status ? status.taken : undefined
  return AlreadyConfigured.parse({
    state: status.state,
    runId: taken?.runId,
    generation: taken?.generation,
  })
}
