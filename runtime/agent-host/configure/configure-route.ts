import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { ConfigureRequest } from '../../../contracts/configure.ts'
import { CONFIGURE_LIMITS } from '../../../contracts/limits.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { deadline } from '../../kit/deadline.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import type { Door } from '../door.ts'
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
  readonly door: Door
  readonly log: Log
}

/** What judges a call: loaded behind the start, before there is anybody to call. */
const judge = () => import('./judge.ts')

/** `POST /configure`: ticket, then body, then the one shot, then the setup, which outlives the connection. */
export function registerConfigureRoute(app: FastifyInstance, deps: ConfigureDeps): void {
  const routes: FastifyPluginAsync = async (scope) => {
    // The ticket covers the raw bytes, so the body stays as it came until the ticket is verified.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

    // Before the body is read: who has no ticket cannot make this process hold eight megabytes.
    const tickets = new WeakMap<FastifyRequest, Ticket>()
    const onRequest = async (request: FastifyRequest) => {
      const { ticketOf } = await judge()
      tickets.set(request, await ticketOf(request, deps.ticket))
      deps.door.know(request.raw.socket)
    }
    const options = { bodyLimit: CONFIGURE_LIMITS.maxBodyBytes, onRequest }
    scope.post(AGENT_HOST_ROUTES.configure, options, async (request, reply) => {
      const { bodyUnder, configured, holderOf } = await judge()
      const body = bodyUnder(tickets.get(request), request)
      const { taken, archive } = takenBy(body)
      const toolbox = deps.machine.take(taken)
      if (!toolbox) return reply.code(409).send(holderOf(deps.machine.status))
      await setUp(deps, body, { toolbox, ...present({ archive }) })
      return configured(body.runId)
    })
  }
  app.register(routes)
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

function takenBy({ runId, generation, turnBearerToken, session }: ConfigureRequest) {
  const taken: Taken = { runId, generation, turnBearerToken }
  if (!session) return { taken }
  const { promise, resolve } = Promise.withResolvers<Uint8Array>()
  const awaitedSession: AwaitedSession = { announced: session, arrived: resolve }
  return { taken: { ...taken, awaitedSession }, archive: promise }
}
