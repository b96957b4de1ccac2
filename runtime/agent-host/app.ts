import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify'
import type { HostState } from '../../contracts/configure.ts'
import type { HostHealth } from '../../contracts/host-health.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { SandboxError } from '../kit/errors.ts'
import { present } from '../kit/present.ts'
import { registerCommandsRoute } from './commands/commands-route.ts'
import { type ConfigureDeps, registerConfigureRoute } from './configure/configure-route.ts'
import type { DecisionTable } from './decisions/decision-table.ts'
import { registerDecisionsRoute } from './decisions/decisions-route.ts'
import { Door } from './door.ts'
import { guardWithBearer, refuseTwoHosts } from './guard.ts'
import { registerErrorHandling } from './http.ts'
import type { Outbox } from './outbox.ts'
import { registerArchiveRoutes } from './routes/archive-routes.ts'
import { registerEventsRoute } from './routes/events-route.ts'
import { registerFilesRoutes } from './routes/files-routes.ts'
import { registerIdentityRoute } from './routes/identity-route.ts'
import type { RunSession } from './session/run-session.ts'
import type { HostStatus } from './state.ts'
import type { RunnerLink } from './toolbox/runner-link.ts'
import { registerA2aRoutes, turnsOrRefuse } from './turn/a2a-routes.ts'

export type AgentHostDeps = Omit<ConfigureDeps, 'door'> & {
  readonly outbox: Outbox
  readonly decisions: DecisionTable
  /** The pod's projected token; a laptop has none, where the socket's folder says whose it is. */
  readonly identityTokenFile?: string
}

const toolboxOf = (status: HostStatus): RunnerLink | undefined =>
  'toolbox' in status ? status.toolbox : 'session' in status ? status.session.toolbox : undefined

const UNHEALTHY: ReadonlySet<HostState> = new Set(['starting', 'failed', 'leaving'])

/** Handlers parse what they are given; the compilers of route schemas would cost memory and time at start. */
const noSchemas = (): never => {
  throw new TypeError('routes of AgentHost have no schemas')
}

/** Everything of AgentHost but listening: two open routes, `/configure` with its ticket, and the bearer's scope. */
export function buildAgentHost(deps: AgentHostDeps): FastifyInstance {
  const { machine, outbox, decisions, log } = deps
  // A machine that starts many sandboxes at once may take longer than Fastify's ten seconds to get here.
  const app = Fastify({
    logger: false,
    forceCloseConnections: true,
    requestTimeout: 0,
    pluginTimeout: 60_000,
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
  })
  registerErrorHandling(app, log)
  refuseTwoHosts(app)

  app.get(AGENT_HOST_ROUTES.healthz, async (_request, reply) => {
    const { state } = machine.status
    const answer: HostHealth = { state, ...present({ isolation: toolboxOf(machine.status)?.isolation }) }
    return reply.code(UNHEALTHY.has(state) ? 503 : 200).send(answer)
  })
  if (deps.identityTokenFile !== undefined) registerIdentityRoute(app, deps.identityTokenFile)
  const door = new Door()
  door.guard(app.server)
  registerConfigureRoute(app, { ...deps, door })

  const session = (): RunSession => {
    const { status } = machine
    if (status.state !== 'ready') throw new SandboxError('not_configured', `AgentHost is ${status.state}`)
    return status.session
  }
  const bearerScope: FastifyPluginAsync = async (scope) => {
    guardWithBearer(scope, machine, door)
    registerEventsRoute(scope, outbox)
    registerDecisionsRoute(scope, outbox, decisions)
    registerCommandsRoute(scope, () => session().commands)
    registerFilesRoutes(scope, () => session().toolbox)
    registerArchiveRoutes(scope, { machine, session })
    registerA2aRoutes(scope, outbox, () => {
      const { runId, turns } = session()
      return { runId, turns: turnsOrRefuse(turns) }
    })
  }
  app.register(bearerScope)
  return app
}
