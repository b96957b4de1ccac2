import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import {
  AlreadyConfigured,
  CONFIGURE_LIMITS,
  ConfigureReply,
  ConfigureRequest,
} from '../../../contracts/configure.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import type { Door } from '../door.ts'
import { bearerOf } from '../guard.ts'
import { SpentError } from '../http.ts'
import type { RunSession } from '../session/run-session.ts'
import type { AwaitedSession, HostStateMachine, HostStatus, Taken } from '../state.ts'
import type { RunnerLink } from '../toolbox/runner-link.ts'
import { assertTicketCovers, type Ticket, type TicketCheck, verifyTicket } from './ticket.ts'

export type SetUp = (
  request: ConfigureRequest,
  toolbox: RunnerLink,
  sessionArchive: Promise<Uint8Array> | undefined,
) => Promise<RunSession>

export type ConfigureDeps = {
  readonly machine: HostStateMachine
  readonly ticket: TicketCheck
  readonly setUp: SetUp
  readonly door: Door
  readonly log: Log
}

/** `POST /configure`: ticket, then body, then the one shot, then the setup, which outlives the connection. */
export function registerConfigureRoute(app: FastifyInstance, deps: ConfigureDeps): void {
  const routes: FastifyPluginAsync = async (scope) => {
    // The ticket covers the raw bytes, so the body stays as it came until the ticket is verified.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

    // Before the body is read: who has no ticket cannot make this process hold eight megabytes.
    const tickets = new WeakMap<FastifyRequest, Ticket>()
    const onRequest = async (request: FastifyRequest) => {
      const ticket = bearerOf(request)
      if (ticket === undefined) throw new SandboxError('unauthenticated', 'a ticket is required')
      tickets.set(request, await verifyTicket(ticket, deps.ticket))
      deps.door.know(request.raw.socket)
    }
    const options = { bodyLimit: CONFIGURE_LIMITS.maxBodyBytes, onRequest }
    scope.post(AGENT_HOST_ROUTES.configure, options, async (request, reply) => {
      const body = bodyUnder(tickets.get(request), request)
      const { taken, archive } = takenBy(body)
      const toolbox = deps.machine.take(taken)
      if (!toolbox) return answerLater(reply, deps.machine.status)
      await setUp(deps, body, { toolbox, ...present({ archive }) })
      return ConfigureReply.parse({ configured: true, runId: body.runId })
    })
  }
  app.register(routes)
}

/** The body of a request whose ticket is in order. The ticket is always judged first. */
function bodyUnder(ticket: Ticket | undefined, request: FastifyRequest): ConfigureRequest {
  const raw = request.body instanceof Buffer ? request.body : Buffer.alloc(0)
  if (ticket === undefined) throw new SandboxError('unauthenticated', 'a ticket is required')
  assertTicketCovers(ticket, raw)
  const body = ConfigureRequest.parse(parseJson(raw))
  if (body.runId !== ticket.sub) throw new SandboxError('unauthenticated', 'the ticket is for another run')
  return body
}

type Shot = { readonly toolbox: RunnerLink; readonly archive?: Promise<Uint8Array> }

/** The setup, which takes the sandbox to `ready` or spends it. */
async function setUp(
  { machine, log, ...deps }: ConfigureDeps,
  body: ConfigureRequest,
  { toolbox, archive }: Shot,
) {
  const session = deadline('the setup', CONFIGURE_LIMITS.timeoutMs, deps.setUp(body, toolbox, archive))
  machine.ready(
    await session.catch((error: unknown) => {
      log.error('the setup failed; this sandbox is spent', { error })
      machine.fail(`the setup failed: ${messageOf(error)}`)
      throw spent(error)
    }),
  )
}

/** Its own code has what became of a credential, and that the toolbox is gone; the sandbox is spent all the same. */
const spent = (cause: unknown): SpentError => {
  const tellsItself =
    cause instanceof SandboxError && (cause.code.startsWith('credential_') || cause.code === 'sandbox_lost')
  return new SpentError(tellsItself ? cause.code : 'configure_failed', messageOf(cause), { cause })
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

function takenBy({ runId, generation, turnBearerToken, session }: ConfigureRequest) {
  const taken: Taken = { runId, generation, turnBearerToken }
  if (!session) return { taken }
  const { promise, resolve } = Promise.withResolvers<Uint8Array>()
  const awaitedSession: AwaitedSession = { announced: session, arrived: resolve }
  return { taken: { ...taken, awaitedSession }, archive: promise }
}

/** A second call with a valid ticket learns which run holds the sandbox, and that it is not the one who asks. */
function answerLater(reply: FastifyReply, status: HostStatus) {
  if (status.state === 'starting')
    throw new SandboxError('not_configured', 'the runners are not connected yet')
  const taken = 'taken' in status ? status.taken : undefined
  return reply
    .code(409)
    .send(
      AlreadyConfigured.parse({ state: status.state, runId: taken?.runId, generation: taken?.generation }),
    )
}
