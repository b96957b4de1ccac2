import type { FastifyInstance, FastifyPluginAsync, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { A2A, AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Outbox } from '../outbox.ts'
import type { A2aRun, createA2aCalls } from './a2a-calls.ts'
import type { Turns } from './turns.ts'

const ID = ':taskId(^[^:]+)'

/** Loaded after the start, to keep the start short. */
const loadCalls = () => import('./a2a-calls.ts')

/** A2A v1 over HTTP+JSON, protected by the run's bearer token. */
export function registerA2aRoutes(scope: FastifyInstance, outbox: Outbox, run: () => A2aRun): void {
  const base = `${AGENT_HOST_ROUTES.a2aBase}/${A2A.versionPath}`
  let loading: Promise<ReturnType<typeof createA2aCalls>> | undefined
  const calls = () => {
    loading ??= loadCalls().then(({ createA2aCalls }) => createA2aCalls({ base, outbox, run }))
    return loading
  }
  const to =
    (call: Exclude<keyof Awaited<ReturnType<typeof calls>>, 'assertVersion'>): RouteHandlerMethod =>
    async (request, reply) =>
      (await calls())[call](request, reply)

  const routes: FastifyPluginAsync = async (a2a) => {
    acceptJson(a2a)
    a2a.addHook('preHandler', async (request) => (await calls()).assertVersion(request))
    a2a.setErrorHandler(async (error, _request, reply) => (await loadCalls()).sendA2aError(error, reply))
    a2a.post(`${base}/message::stream`, to('streamMessage'))
    a2a.post(`${base}/message::send`, to('sendMessage'))
    a2a.get(`${base}/tasks`, to('listTasks'))
    a2a.get(`${base}/tasks/${ID}`, to('getTask'))
    a2a.post(`${base}/tasks/${ID}::cancel`, to('cancelTask'))
    for (const method of ['GET', 'POST'] as const) {
      a2a.route({ method, url: `${base}/tasks/${ID}::subscribe`, handler: to('subscribe') })
    }
    a2a.get(`${AGENT_HOST_ROUTES.a2aBase}/.well-known/agent-card.json`, to('agentCard'))
  }
  scope.register(routes)
}

/** A2A clients send `application/json` or `application/a2a+json`. */
function acceptJson(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser(
    /^application\/(?:a2a\+)?json/,
    { parseAs: 'string' },
    async (_request: FastifyRequest, text: string) => (await loadCalls()).parseA2aBody(text),
  )
}

/** Throws `not_found` for a sandbox without an agent, which has no A2A. */
export function requireTurns(turns: Turns | undefined): Turns {
  if (turns === undefined) throw new SandboxError('not_found', 'this sandbox has no agent')
  return turns
}
