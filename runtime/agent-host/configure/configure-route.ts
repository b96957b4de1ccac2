import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { ConfigureRequest } from '../../../contracts/configure.ts'
import { CONFIGURE_LIMITS } from '../../../contracts/limits.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import type { ConnectionLimiter } from '../connection-limiter.ts'
import { SpentError } from '../http.ts'
import type { RunSession } from '../session/run-session.ts'
import type { AwaitedSession, HostStateMachine, Taken } from '../state.ts'
import type { RunnerLink } from '../toolbox/runner-link.ts'
import type { Ticket, TicketCheck } from './ticket.ts'

export type SetUp = (
  request: ConfigureRequest,
  toolbox: RunnerLink,
  sessionArchive: Promise<Uint8Array> | undefined,
) => Promise<RunSession>

export type ConfigureDeps = {
  readonly machine: HostStateMachine
  readonly ticket: TicketCheck
  readonly setUp: SetUp
  readonly limiter: ConnectionLimiter
  readonly log: Log
}

/** Loaded after the start, to keep the start short. */
const loadChecks = () => import('./check-request.ts')

/**
 * `POST /configure`: verifies the ticket, reads the body, assigns the sandbox, and sets up the run. The setup continues
 * when the connection closes.
 */
export function registerConfigureRoute(app: FastifyInstance, deps: ConfigureDeps): void {
  const routes: FastifyPluginAsync = async (scope) => {
    // The ticket signs the raw bytes, so the body is parsed only after the ticket is verified.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

    // The ticket is verified before the body is read: a client without one cannot make this process buffer 8 MB.
    const tickets = new WeakMap<FastifyRequest, Ticket>()
    const onRequest = async (request: FastifyRequest) => {
      const { ticketOf } = await loadChecks()
      tickets.set(request, await ticketOf(request, deps.ticket))
      deps.limiter.authenticate(request.raw.socket)
    }
    const options = { bodyLimit: CONFIGURE_LIMITS.maxBodyBytes, onRequest }
    scope.post(AGENT_HOST_ROUTES.configure, options, async (request, reply) => {
      const { verifiedBody, configured, alreadyConfigured } = await loadChecks()
      const body = verifiedBody(tickets.get(request), request)
      const { taken, archive } = takenBy(body)
      const toolbox = deps.machine.take(taken)
      if (!toolbox) return reply.code(409).send(alreadyConfigured(deps.machine.status))
      await setUp(deps, body, { toolbox, ...present({ archive }) })
      return configured(body.runId)
    })
  }
  app.register(routes)
}

type Assigned = { readonly toolbox: RunnerLink; readonly archive?: Promise<Uint8Array> }

/** Takes the sandbox to `ready`, or to `failed` for good. */
async function setUp(
  { machine, log, ...deps }: ConfigureDeps,
  body: ConfigureRequest,
  { toolbox, archive }: Assigned,
) {
  const session = deadline('the setup', CONFIGURE_LIMITS.timeoutMs, deps.setUp(body, toolbox, archive))
  machine.ready(
    await session.catch((error: unknown) => {
      log.error('the setup failed; this sandbox cannot be used again', { error })
      machine.fail(`the setup failed: ${messageOf(error)}`)
      throw spent(error)
    }),
  )
}

/** Credential errors and a lost runner keep their code. Every other error becomes `configure_failed`. */
const spent = (cause: unknown): SpentError => {
  const keepsCode =
    cause instanceof SandboxError && (cause.code.startsWith('credential_') || cause.code === 'sandbox_lost')
  return new SpentError(keepsCode ? cause.code : 'configure_failed', messageOf(cause), { cause })
}

function takenBy({ runId, generation, turnBearerToken, session }: ConfigureRequest) {
  const taken: Taken = { runId, generation, turnBearerToken }
  if (!session) return { taken }
  const { promise, resolve } = Promise.withResolvers<Uint8Array>()
  const awaitedSession: AwaitedSession = { announced: session, arrived: resolve }
  return { taken: { ...taken, awaitedSession }, archive: promise }
}
