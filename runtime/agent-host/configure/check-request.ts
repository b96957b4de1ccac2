import type { FastifyRequest } from 'fastify'
import { AlreadyConfigured, ConfigureReply, ConfigureRequest } from '../../../contracts/configure.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { bearerOf } from '../guard.ts'
import type { HostStatus } from '../state.ts'
import { assertTicketCovers, type Ticket, type TicketCheck, verifyTicket } from './ticket.ts'

/** Verifies the ticket in the `Authorization` header. */
export function ticketOf(request: FastifyRequest, check: TicketCheck): Promise<Ticket> {
  const ticket = bearerOf(request)
  if (ticket === undefined) throw new SandboxError('unauthenticated', 'a ticket is required')
  return verifyTicket(ticket, check)
}

/** Parses the body, after checking that the verified ticket signs exactly these bytes and this run. */
export function verifiedBody(ticket: Ticket | undefined, request: FastifyRequest): ConfigureRequest {
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

/** The 409 body for a second call with a valid ticket: which run the sandbox serves. */
export function alreadyConfigured(status: HostStatus) {
  if (status.state === 'starting')
    throw new SandboxError('not_configured', 'the runners are not connected yet')
  const taken = 'taken' in status ? status.taken : undefined
  return AlreadyConfigured.parse({
    state: status.state,
    runId: taken?.runId,
    generation: taken?.generation,
  })
}
