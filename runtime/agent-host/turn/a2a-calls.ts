import {
  A2AError,
  RequestMalformedError,
  restStatusFor,
  TaskNotCancelableError,
  TaskNotFoundError,
  toRestErrorBody,
} from '@a2a-js/sdk/errors'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { A2A } from '../../../contracts/routes.ts'
import { messageOf } from '../../kit/errors.ts'
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

export type A2aRun = { readonly runId: string; readonly turns: Turns }

type Served = { readonly base: string; readonly outbox: Outbox; readonly run: () => A2aRun }

/**
 * The A2A route handlers. Every stream is a task snapshot followed by the task's events from the outbox, so a client that
 * subscribes after the turn has ended gets the same events as one that subscribed before.
 */
export function createA2aCalls({ base, outbox, run }: Served) {
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
    return run().turns.startOrFollow(parseSendMessage(request.body))
  }

  const find = (request: FastifyRequest): HostTurn => {
    const { taskId } = request.params as { taskId: string }
    const turn = run().turns.get(taskId)
    if (!turn) throw new TaskNotFoundError(`there is no task ${taskId}`)
    return turn
  }

  return {
    assertVersion: (request: FastifyRequest) =>
      assertVersion(request.headers[A2A.versionHeader.toLowerCase()]),
    streamMessage: (request: FastifyRequest, reply: FastifyReply) => stream(reply, start(request)),
    sendMessage: async (request: FastifyRequest) => {
      const turn = start(request)
      await turn.ended
      return { task: taskToJson(turn, run().runId) }
    },
    listTasks: () => {
      const tasks = run()
        .turns.list()
        .map((turn) => taskToJson(turn, run().runId))
      return { tasks, nextPageToken: '', pageSize: tasks.length, totalSize: tasks.length }
    },
    getTask: (request: FastifyRequest) => taskToJson(find(request), run().runId),
    cancelTask: async (request: FastifyRequest) => {
      const turn = find(request)
      if (turn.state !== 'working') throw new TaskNotCancelableError(`task ${turn.id} has ended`)
      turn.cancel()
      await turn.ended
      return taskToJson(turn, run().runId)
    },
    subscribe: (request: FastifyRequest, reply: FastifyReply) => stream(reply, find(request)),
    agentCard: () => agentCardToJson(base),
  }
}

/** Sends an A2A error in A2A's own format. Rethrows every other error. */
export function sendA2aError(error: unknown, reply: FastifyReply) {
  if (!(error instanceof A2AError)) throw error
  const status = restStatusFor(error)
  return reply.code(status).send(toRestErrorBody(error, status))
}

/** Requests without parameters have no body. */
export function parseA2aBody(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch (error) {
    throw notJson(error)
  }
}

const notJson = (error: unknown) => new RequestMalformedError(`the body is not JSON: ${messageOf(error)}`)
