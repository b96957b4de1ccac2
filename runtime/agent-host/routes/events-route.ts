import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { AGENT_HOST_ROUTES, LAST_EVENT_ID_HEADER } from '../../../contracts/routes.ts'
import type { Outbox } from '../outbox.ts'
import { streamSse } from '../sse.ts'

const LastEventId = z.coerce.number().int().nonnegative().default(0)

/** `GET /events`: streams all events of this sandbox after `Last-Event-ID`. */
export function registerEventsRoute(scope: FastifyInstance, outbox: Outbox): void {
  scope.get(AGENT_HOST_ROUTES.events, async (request, reply) => {
    const after = LastEventId.parse(request.headers[LAST_EVENT_ID_HEADER])
    outbox.assertReplayable(after)
    await streamSse(reply, async function* frames(signal) {
      for await (const envelope of outbox.follow(after, signal)) {
        yield { id: String(envelope.sequence), event: envelope.event.type, data: JSON.stringify(envelope) }
      }
    })
  })
}
