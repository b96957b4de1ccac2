import {
  A2AError,
  RequestMalformedError,
  restStatusFor,
  TaskNotCancelableError,
  TaskNotFoundError,
  toRestErrorBody,
} from '@a2a-js/sdk/errors'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { A2A, AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Outbox } from '../outbox.ts'
import { type SseFrame, streamSse } from '../sse.ts'
import {
  agentCardToJson,
  assertVersion,
  envelopeToJson,
  parseSendMessage,
  snapshotToJson,
  taskToJson,
} from './a2a-wire.ts'
import type { HostTurn, Turns } from './turns.ts'

/** The run that A2A serves; a sandbox without an agent has none. */
export type A2aRun = { readonly runId: string; readonly turns: Turns }

const ID = ':taskId(^[^:]+)'

/**
 * A2A v1, HTTP+JSON, under the run's bearer. Every stream is a view of the outbox: a task snapshot, then the
 * task's events, so a follower of an ended turn gets the same as one who was there.
 */
export function registerA2aRoutes(scope: FastifyInstance, outbox: Outbox, run: () => A2aRun): void {
  const base = `${AGENT_HOST_ROUTES.a2aBase}/${A2A.versionPath}`

  async function* follow(turn: HostTurn, contextId: string, signal: AbortSignal): AsyncGenerator<SseFrame> {
    yield { data: JSON.stringify(snapshotToJson(turn, contextId)) }
    for await (const envelope of outbox.follow(
      turn.startedAfter,
      signal,
      () => turn.endedAt ?? Number.POSITIVE_INFINITY,
    )) {
      if (envelope.taskId !== turn.id) continue
      yield { id: String(envelope.sequence), data: JSON.stringify(envelopeToJson(envelope, contextId)) }
      if (envelope.event.type === 'turn.ended') return
    }
  }

  const stream = (reply: FastifyReply, turn: HostTurn) =>
    streamSse(reply, (signal) => follow(turn, run().runId, signal))

  const start = (request: FastifyRequest): HostTurn => {
    const { turnId, prompt } = parseSendMessage(request.body)
    return run().turns.startOrFollow(turnId, prompt)
  }

  const find = (request: FastifyRequest): HostTurn => {
    const { taskId } = request.params as { taskId: string }
    const turn = run().turns.get(taskId)
    if (!turn) throw new TaskNotFoundError(`there is no task ${taskId}`)
    return turn
  }

  const routes: FastifyPluginAsync = async (a2a) => {
    acceptJson(a2a)
    a2a.addHook('preHandler', async (request) =>
      assertVersion(request.headers[A2A.versionHeader.toLowerCase()]),
    )
    a2a.setErrorHandler((error, _request, reply) => {
      if (!(error instanceof A2AError)) throw error
      const status = restStatusFor(error)
      return reply.code(status).send(toRestErrorBody(error, status))
    })
    a2a.post(`${base}/message::stream`, async (request, reply) => stream(reply, start(request)))
    a2a.post(`${base}/message::send`, async (request) => {
      const turn = start(request)
      await turn.ended
      return { task: taskToJson(turn, run().runId) }
    })
    a2a.get(`${base}/tasks`, async () => {
      const tasks = run()
        .turns.list()
        .map((turn) => taskToJson(turn, run().runId))
      return { tasks, nextPageToken: '', pageSize: tasks.length, totalSize: tasks.length }
    })
    a2a.get(`${base}/tasks/${ID}`, async (request) => taskToJson(find(request), run().runId))
    a2a.post(`${base}/tasks/${ID}::cancel`, async (request) => {
      const turn = find(request)
      if (turn.state !== 'working') throw new TaskNotCancelableError(`task ${turn.id} has ended`)
      turn.cancel()
      await turn.ended
      return taskToJson(turn, run().runId)
    })
    for (const method of ['GET', 'POST'] as const) {
      a2a.route({
        method,
        url: `${base}/tasks/${ID}::subscribe`,
        handler: async (request, reply) => stream(reply, find(request)),
      })
    }
    a2a.get(`${AGENT_HOST_ROUTES.a2aBase}/.well-known/agent-card.json`, async () => agentCardToJson(base))
  }
  scope.register(routes)
}

/** A2A clients send `application/json` or `application/a2a+json`, and requests without parameters without a body. */
function acceptJson(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser(
    /^application\/(?:a2a\+)?json/,
    { parseAs: 'string' },
    (_request, text, done) => {
      try {
        done(null, text === '' ? undefined : JSON.parse(String(text)))
      } catch (error) {
        done(new RequestMalformedError(`the body is not JSON: ${messageOf(error)}`))
      }
    },
  )
}

/** The turns of a run that has an agent; a sandbox without one has no A2A. */
export function turnsOrRefuse(turns: Turns | undefined): Turns {
  if (turns === undefined) throw new SandboxError('not_found', 'this sandbox has no agent')
  return turns
}
