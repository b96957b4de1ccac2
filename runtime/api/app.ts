import { randomUUID } from 'node:crypto'
import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import { API_ROUTES } from '../../contracts/routes.ts'
import type { SignInMethods } from '../../contracts/sign-in.ts'
import type { Log } from '../kit/log.ts'
import type { Store } from '../store/store.ts'
import type { UserCredentialService } from './credentials/user-credential-service.ts'
import { guardRoutes } from './http/authenticate.ts'
import { endRepliesOfInvalidCredentials } from './http/credential-watch.ts'
import { Downloads } from './http/downloads.ts'
import { answerProblems, answerUnknownRoutes, sendProblem } from './http/error-handler.ts'
import { ResponseErrorsOnly, toFastifyLog } from './http/fastify-log.ts'
import { refuseForeignHosts } from './http/host-guard.ts'
import { refuseLongIds } from './http/id-length.ts'
import { createOnce } from './http/idempotency.ts'
import { registerOpenapi, serveOpenapi } from './http/openapi.ts'
import { limitPerOwner, registerRateLimit } from './http/rate-limit.ts'
import { logRequests } from './http/request-log.ts'
import { measureRequests } from './http/request-metrics.ts'
import { traceRequests } from './http/request-traces.ts'
import { setSecurityHeaders } from './http/security-headers.ts'
import { closeInOrder } from './http/shutdown.ts'
import { OpenStreams, type StreamLimits } from './http/sse.ts'
import type { ProcessMetrics } from './metrics/process-metrics.ts'
import type { KeyService } from './people/api-keys.ts'
import type { SignIn } from './people/sign-in.ts'
import { apiKeyRoutes, meRoutes } from './routes/api-keys.ts'
import { auditRoutes, runAuditRoutes } from './routes/audit.ts'
import { commandRoutes } from './routes/commands.ts'
import { decisionRoutes } from './routes/decisions.ts'
import type { RouteDeps } from './routes/deps.ts'
import { diagnosticRoutes } from './routes/diagnostics.ts'
import { egressRoutes } from './routes/egress.ts'
import { eventRoutes } from './routes/events.ts'
import { fileRoutes } from './routes/files.ts'
import { healthRoutes } from './routes/health.ts'
import { modelRoutes } from './routes/models.ts'
import { ownerDataRoutes } from './routes/owner-data.ts'
import { restrictionRoutes } from './routes/restrictions.ts'
import { resultRoutes } from './routes/results.ts'
import { runRoutes } from './routes/runs.ts'
import { sandboxPolicyRoutes } from './routes/sandbox-policy.ts'
import { sandboxRoutes } from './routes/sandboxes.ts'
import { signInRoutes } from './routes/sign-in.ts'
import { suspensionRoutes } from './routes/suspension.ts'
import { trustedFolderRoutes } from './routes/trusted-folders.ts'
import { userCredentialRoutes } from './routes/user-credentials.ts'
import { workspaceRoutes } from './routes/workspace.ts'
import type { RunService } from './runs/service.ts'
import type { Tracing } from './tracing/tracing.ts'

export interface AppOptions {
  readonly service: RunService
  readonly store: Pick<
    Store,
    'readApiKey' | 'noteApiKeyUse' | 'listUnusableApiKeys' | 'readIdempotencyKey' | 'writeIdempotencyKey'
  >
  readonly keys: KeyService
  readonly userCredentials: UserCredentialService
  /** Absent if API keys are the only credentials. */
  readonly signIn?: SignIn | undefined
  /** How the command line signs a person in. @default with an API key only */
  readonly signInMethods?: SignInMethods
  readonly log: Log
  readonly now: () => Date
  readonly rateLimitPerMinute: number
  readonly streams: StreamLimits
  /** Settles when the service has started. Earlier requests wait for it. */
  readonly started: Promise<unknown>
  /** Accepted `Host` values in addition to the service's own addresses. */
  readonly allowedHosts: readonly string[]
  /** Metrics are served on a separate port and not here. */
  readonly hasOwnMetricsPort?: boolean
  /** @default requests are not measured */
  readonly metrics?: ProcessMetrics
  /** @default nothing is traced */
  readonly tracing?: Tracing | undefined
}

/** Maximum size of a request line with headers. */
const MAX_HEADER_BYTES = 16_384

/** Connection limits. Bodies are small or streamed; the request timeout is the time that a run waits for its upload. */
const CONNECTION = {
  bodyLimit: 1_048_576,
  requestTimeout: 900_000,
  /** Idle time of a connection: four heartbeats that the reader did not take. */
  connectionTimeout: 60_000,
  keepAliveTimeout: 72_000,
  /** Time to load the plugins, generous for a busy machine. */
  pluginTimeout: 60_000,
  http: { headersTimeout: 20_000, maxHeaderSize: MAX_HEADER_BYTES },
  // `refuseLongIds` limits ids, after the guards have run.
  routerOptions: { maxParamLength: MAX_HEADER_BYTES },
} as const

/** Creates the HTTP application. It never listens and never reads the environment. Closing it closes the service first. */
export function buildApp(options: AppOptions): FastifyInstance {
  const { service, log } = options
  const app = Fastify({
    ...CONNECTION,
    loggerInstance: toFastifyLog(log),
    logController: new ResponseErrorsOnly(log),
    // HEAD on a stream would wait until the stream ends.
    exposeHeadRoutes: false,
    genReqId: () => `req_${randomUUID()}`,
    // While the service closes, a hook below returns problem details instead of Fastify's plain 503.
    return503OnClosing: false,
    forceCloseConnections: true,
    frameworkErrors: (error, request, reply) => void sendProblem(error, { request, reply, log }),
  })
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  app.removeContentTypeParser('text/plain')
  app.decorateRequest('credential', null)

  answerProblems(app, log)
  logRequests(app, log)
  if (options.metrics) measureRequests(app, options.metrics)
  setSecurityHeaders(app)
  refuseForeignHosts(app, options.allowedHosts)
  registerRateLimit(app, options.rateLimitPerMinute)
  app.after(() => answerUnknownRoutes(app, log))
  registerOpenapi(app)
  const streams = new OpenStreams(options.streams, options.metrics?.cutStream)
  closeInOrder(app, service, streams)

  app.register(openRoutes, options)
  const downloads = new Downloads()
  const replies = [streams.replies, downloads.replies]
  endRepliesOfInvalidCredentials(app, { ...options, replies })
  app.register(guardedRoutes, { ...options, streams, downloads, once: createOnce(options) })
  return app
}

const openRoutes: FastifyPluginAsync<AppOptions> = async (open, options) => {
  const { service, hasOwnMetricsPort = false, signInMethods = {} } = options
  await open.register(healthRoutes, { service, hasOwnMetricsPort })
  await open.register(signInRoutes, { methods: signInMethods })
  serveOpenapi(open)
}

/** All routes that need a credential. The guard is a hook of this scope, so a new route cannot miss it. */
const guardedRoutes: FastifyPluginAsync<Omit<AppOptions, 'streams'> & RouteDeps> = async (
  guarded,
  options,
) => {
  const { service, once, streams, downloads, started, store, log, now, signIn } = options
  guarded.addHook('onRequest', async () => void (await started))
  guardRoutes(guarded, { store, log, now, signIn })
  limitPerOwner(guarded)
  if (options.tracing) traceRequests(guarded, options.tracing)
  refuseLongIds(guarded)
  const deps = { service, once, streams, downloads }
  const runs = { ...deps, prefix: API_ROUTES.runs }
  const sandboxes = { ...deps, prefix: API_ROUTES.sandboxes }
  await guarded.register(runRoutes, runs)
  await guarded.register(suspensionRoutes, runs)
  await guarded.register(eventRoutes, runs)
  await guarded.register(egressRoutes, runs)
  await guarded.register(workspaceRoutes, runs)
  await guarded.register(resultRoutes, runs)
  await guarded.register(commandRoutes, runs)
  await guarded.register(fileRoutes, runs)
  await guarded.register(decisionRoutes, runs)
  await guarded.register(runAuditRoutes, runs)
  await guarded.register(sandboxRoutes, sandboxes)
  await guarded.register(commandRoutes, sandboxes)
  await guarded.register(fileRoutes, sandboxes)
  await guarded.register(modelRoutes, { ...deps, prefix: API_ROUTES.models })
  await guarded.register(sandboxPolicyRoutes, { ...deps, prefix: API_ROUTES.sandboxPolicy })
  await guarded.register(restrictionRoutes, { ...deps, prefix: API_ROUTES.restrictions })
  await guarded.register(trustedFolderRoutes, { ...deps, prefix: API_ROUTES.trustedFolders })
  await guarded.register(auditRoutes, { ...deps, prefix: API_ROUTES.audit })
  await guarded.register(diagnosticRoutes, { service, prefix: API_ROUTES.diagnostics })
  await guarded.register(ownerDataRoutes, { ...deps, prefix: API_ROUTES.data })
  await guarded.register(meRoutes, { prefix: API_ROUTES.me })
  const { userCredentials } = options
  await guarded.register(userCredentialRoutes, { once, userCredentials, prefix: API_ROUTES.userCredentials })
  await guarded.register(apiKeyRoutes, { ...deps, keys: options.keys, prefix: API_ROUTES.keys })
}
