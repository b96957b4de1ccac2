import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { EventPage } from '../../../contracts/api.ts'
import { LAST_EVENT_ID_HEADER } from '../../../contracts/routes.ts'
import { callerOf } from '../http/authenticate.ts'
import { eventStream, GUARDED, problems, RunParams, wholeNumber } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const tags = ['events']
const Sequence = wholeNumber()
const MAX_PAGE = 1000

export const eventRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, streams }) => {
  app.get(
    '/:id/stream',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'streamRunEvents',
        summary: 'Follow a run: its events after a sequence, then new ones, until `done`',
        headers: z.looseObject({ [LAST_EVENT_ID_HEADER]: Sequence.optional() }),
        params: RunParams,
        querystring: z.strictObject({ after: Sequence.optional() }),
        response: {
          200: eventStream,
          204: z.null().describe('The run has ended, and the reader has received its last event.'),
          ...problems(404),
        },
      },
    },
    async (request, reply) => {
      // `EventSource` reconnects with its original URL, so the header is more recent than the query.
      const after = request.headers[LAST_EVENT_ID_HEADER] ?? request.query.after ?? 0
      const signal = streams.admit(request, reply)
      const events = await service.subscribe(callerOf(request), request.params.id, { after, signal })
      // `EventSource` reconnects after `done` as well. Only a 204 makes it stop.
      return events ? streams.send(reply, events) : reply.code(204).send(null)
    },
  )

  app.get(
    '/:id/events',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'listRunEvents',
        summary: 'Read a page of events, oldest first',
        params: RunParams,
        querystring: z.strictObject({
          after: Sequence.default(0),
          limit: wholeNumber({ min: 1, max: MAX_PAGE }).default(200),
        }),
        response: { 200: EventPage, ...problems(404) },
      },
    },
    async (request) => {
      const { after, limit } = request.query
      const items = await service.readEvents(callerOf(request), request.params.id, { after, limit })
      const last = items.at(-1)
      return { items, ...(last && items.length === limit && { next: String(last.sequence) }) }
    },
  )
}
