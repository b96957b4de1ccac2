import type { FastifyInstance, FastifyReply } from 'fastify'
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
import { bearerOf } from '../guard.ts'
import type { RunSession } from '../session/run-session.ts'
import type { AwaitedSession, HostStateMachine, HostStatus, Taken } from '../state.ts'
import type { RunnerLink } from '../toolbox/runner-link.ts'
import { type TicketCheck, verifyTicket } from './ticket.ts'

export type SetUp = (
  request: ConfigureRequest,
  toolbox: RunnerLink,
  sessionArchive: Promise<Uint8Array> | undefined,
) => Promise<RunSession>

export type ConfigureDeps = {
  readonly machine: HostStateMachine
  readonly ticket: TicketCheck
  readonly setUp: SetUp
  readonly log: Log
}

/** `POST /configure`: ticket, then body, then the one shot, then the setup, which outlives the connection. */
export function registerConfigureRoute(app: FastifyInstance, deps: ConfigureDeps): void {
  const { machine } = deps

  async function configure(request: ConfigureRequest, toolbox: RunnerLink, archive?: Promise<Uint8Array>) {
    try {
      machine.ready(
        await deadline('the setup', CONFIGURE_LIMITS.timeoutMs, deps.setUp(request, toolbox, archive)),
      )
    } catch (error) {
      deps.log.error('the setup failed; this sandbox is spent', { error })
      machine.fail(`the setup failed: ${messageOf(error)}`)
      throw new SandboxError('configure_failed', messageOf(error), { cause: error })
    }
  }

  app.register(async (scope) => {
    // The ticket covers the raw bytes, so the body stays as it came until the ticket is verified.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

    scope.post(
      AGENT_HOST_ROUTES.configure,
      { bodyLimit: CONFIGURE_LIMITS.maxBodyBytes },
      async (request, reply) => {
        const ticket = bearerOf(request)
        if (ticket === undefined) throw new SandboxError('unauthenticated', 'a ticket is required')
        const raw = request.body instanceof Buffer ? request.body : Buffer.alloc(0)
        const { runId } = await verifyTicket(ticket, raw, deps.ticket)

        const body = ConfigureRequest.parse(parseJson(raw))
        if (body.runId !== runId) throw new SandboxError('unauthenticated', 'the ticket is for another run')

        const { taken, archive } = takenBy(body)
        const toolbox = machine.take(taken)
        if (!toolbox) return answerLater(reply, machine.status)
        await configure(body, toolbox, archive)
        return ConfigureReply.parse({ configured: true, runId })
      },
    )
  })
}

function parseJson(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString('utf8'))
  } catch (error) {
    throw new SandboxError('invalid_request', `the body is not JSON: ${messageOf(error)}`, { cause: error })
  }
}

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
