import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify'
import type { HostState } from '../../contracts/configure.ts'
import type { HostHealth } from '../../contracts/host-health.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { SandboxError } from '../kit/errors.ts'
import { present } from '../kit/present.ts'
import { registerCommandsRoute, registerFreezeRoute } from './commands/commands-route.ts'
import { type ConfigureDeps, registerConfigureRoute } from './configure/configure-route.ts'
import { ConnectionLimiter } from './connection-limiter.ts'
import type { DecisionTable } from './decisions/decision-table.ts'
import { registerDecisionsRoute } from './decisions/decisions-route.ts'
import { guardWithBearer, refuseDuplicateHost } from './guard.ts'
import { registerErrorHandling } from './http.ts'
import type { Outbox } from './outbox.ts'
import { registerRepositoryRoutes } from './repository/repository-routes.ts'
import { registerArchiveRoutes } from './routes/archive-routes.ts'
import { registerEgressRoute } from './routes/egress-route.ts'
import { registerEventsRoute } from './routes/events-route.ts'
import { registerFilesRoutes } from './routes/files-routes.ts'
import { registerIdentityRoute } from './routes/identity-route.ts'
import type { RunSession } from './session/run-session.ts'
import type { HostStatus } from './state.ts'
import type { RunnerLink } from './toolbox/runner-link.ts'
import { registerA2aRoutes, requireTurns } from './turn/a2a-routes.ts'

export type AgentHostDeps = Omit<ConfigureDeps, 'limiter'> & {
  readonly outbox: Outbox
  readonly decisions: DecisionTable
  /** Projected service account token. Undefined on a laptop, where the folder permissions protect the socket. */
  readonly identityTokenFile?: string
}

const toolboxOf = (status: HostStatus): RunnerLink | undefined =>
  'toolbox' in status ? status.toolbox : 'session' in status ? status.session.toolbox : undefined

const UNHEALTHY: ReadonlySet<HostState> = new Set(['starting', 'failed', 'leaving'])

/** Handlers parse their input with zod. Fastify's schema compilers would only cost memory and start-up time. */
const noSchemas = (): never => {
  throw new TypeError('AgentHost routes must not declare schemas; parse the input in the handler')
}

/**
 * Builds the app without listening: two open routes (`/healthz` and `/identity`), `/configure` behind a ticket, and all
 * other routes behind the run's bearer token.
 */
export function buildAgentHost(deps: AgentHostDeps): FastifyInstance {
  const { machine, outbox, decisions, log } = deps
  // A machine that starts many sandboxes at once can exceed Fastify's default plugin timeout of ten seconds.
  const app = Fastify({
    logger: false,
    forceCloseConnections: true,
    requestTimeout: 0,
    pluginTimeout: 60_000,
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
  })
  registerErrorHandling(app, log)
  refuseDuplicateHost(app)

  app.get(AGENT_HOST_ROUTES.healthz, async (_request, reply) => {
    const { state } = machine.status
    const answer: HostHealth = { state, ...present({ isolation: toolboxOf(machine.status)?.isolation }) }
    return reply.code(UNHEALTHY.has(state) ? 503 : 200).send(answer)
  })
  if (deps.identityTokenFile !== undefined) registerIdentityRoute(app, deps.identityTokenFile)
  const limiter = new ConnectionLimiter()
  limiter.attach(app.server)
  registerConfigureRoute(app, { ...deps, limiter })

  const session = (): RunSession => {
    const { status } = machine
    if (status.state !== 'ready') throw new SandboxError('not_configured', `AgentHost is ${status.state}`)
    return status.session
  }
  const bearerScope: FastifyPluginAsync = async (scope) => {
    guardWithBearer(scope, machine, limiter)
    registerEventsRoute(scope, outbox)
    registerDecisionsRoute(scope, outbox, decisions)
    registerCommandsRoute(scope, () => session().commands)
    registerEgressRoute(scope, session)
    registerFreezeRoute(scope, () => session().toolbox)
    registerFilesRoutes(scope, () => session().toolbox)
    registerArchiveRoutes(scope, { machine, session })
    registerRepositoryRoutes(scope, { session, log })
    registerA2aRoutes(scope, outbox, () => {
      const { runId, turns } = session()
      return { runId, turns: requireTurns(turns) }
    })
  }
  app.register(bearerScope)
  return app
}
