import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { FinishedCommand, RunId, StartCommand, StartedCommand } from '../../../contracts/api.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { commandEvents } from '../../kit/command-events.ts'
import { SandboxError } from '../../kit/errors.ts'
import { isPreferred } from '../http/accept.ts'
import { callerOf } from '../http/authenticate.ts'
import { finishedCommandJson } from '../http/finished-command.ts'
import { MAX_ID_CHARACTERS } from '../http/id-length.ts'
import {
  EVENT_STREAM,
  eventStream,
  GUARDED,
  JSON_DOCUMENT,
  MutationHeaders,
  problems,
  RunParams,
} from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const tags = ['commands']
/** Maximum body size: the command's input in base64 plus the rest of the request. */
const MAX_COMMAND_BODY_BYTES = 92_274_688
const prefersAsync = (prefer: string | undefined) =>
  (prefer ?? '').split(',').some((preference) => preference.trim().toLowerCase() === 'respond-async')

/** Commands in the sandbox of a run. The same routes serve sandboxes without an agent. */
export const commandRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once, streams }) => {
  // Operation ids must be unique in the document, and these routes are registered twice.
  const owner = app.prefix === API_ROUTES.runs ? 'Run' : 'Sandbox'
  app.post(
    '/:id/commands',
    {
      bodyLimit: MAX_COMMAND_BODY_BYTES,
      schema: {
        ...GUARDED,
        tags,
        operationId: `start${owner}Command`,
        summary:
          'Run a command and stream its events until it exits; with `Accept: application/json` return one document ' +
          'when it has exited; with `Prefer: respond-async` only start it',
        headers: MutationHeaders.extend({ prefer: z.string().max(256).optional() }),
        params: RunParams,
        body: StartCommand,
        response: {
          200: {
            content: { ...eventStream.content, [JSON_DOCUMENT]: { schema: FinishedCommand } },
          },
          202: StartedCommand,
          ...problems(403, 404, 409, 413, 415, 502, 503),
        },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const { id } = request.params
      const isFollowed = !prefersAsync(request.headers.prefer)
      // Admitted before the command starts, because a rejected request must not run anything.
      const signal = isFollowed ? streams.admit(request, reply) : undefined
      const started = await once(request, reply, (caller) => service.startCommand(caller, id, request.body))
      if (!signal) {
        return reply.code(202).header('preference-applied', 'respond-async').send(started)
      }
      const readEvents = async () => {
        const events = await service.subscribe(caller, id, { after: started.afterSequence, signal })
        if (!events) throw new SandboxError('run_ended', `run ${id} ended before the command did`)
        return events
      }
      // The command continues if its reader disconnects. Its timeout or a DELETE ends it.
      const events = await readEvents()
      if (!isPreferred(JSON_DOCUMENT, EVENT_STREAM, request.headers.accept))
        return streams.send(reply, commandEvents(events, started.commandId))
      const { maxOutputBytes } = request.body
      const command = { commandId: started.commandId, maxOutputBytes, readAgain: readEvents }
      return streams.sendJson(reply, finishedCommandJson(events, command))
    },
  )

  app.delete(
    '/:id/commands/:commandId',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: `cancel${owner}Command`,
        summary: 'Cancel a command',
        headers: MutationHeaders,
        params: z.object({ id: RunId, commandId: z.string().min(1).max(MAX_ID_CHARACTERS) }),
        response: { 204: z.null(), ...problems(404, 409, 502, 503) },
      },
    },
    async (request, reply) => {
      await once(request, reply, (caller) =>
        service.cancelCommand(caller, request.params.id, request.params.commandId),
      )
      return reply.code(204).send(null)
    },
  )
}
