import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { ErasedData, OwnerDataLine } from '../../../contracts/owner-data.ts'
import { JSON_LINES_MEDIA_TYPE } from '../../../contracts/routes.ts'
import { callerOf } from '../http/authenticate.ts'
import { lines, sendLines } from '../http/json-lines.ts'
import { GUARDED, problems } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['data'] }
const Owner = z.string().min(1).max(256)
const linesSchema = (line: z.ZodType) => ({ content: { [JSON_LINES_MEDIA_TYPE]: { schema: line } } })

/** What the service stores of an owner. */
export const ownerDataRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, streams }) => {
  const exportSchema = {
    ...schema,
    operationId: 'exportData',
    summary: 'Export the data of an owner, one object per line; the last line has the type end',
    // Without it: the caller.
    querystring: z.strictObject({ owner: Owner.optional() }),
    response: { 200: linesSchema(OwnerDataLine), ...problems(403) },
  }
  app.get('', { schema: exportSchema }, async (request, reply) => {
    const caller = callerOf(request)
    const signal = streams.admit(request, reply)
    const exported = await service.exportData(caller, request.query.owner ?? caller.owner)
    return sendLines(reply, lines(exported, signal))
  })

  const eraseSchema = {
    ...schema,
    operationId: 'eraseData',
    summary:
      'Erase the data of an owner whose runs have ended: one progress report per line, the complete one last',
    querystring: z.strictObject({ owner: Owner }),
    response: { 200: linesSchema(ErasedData), ...problems(403, 409) },
  }
  app.delete('', { schema: eraseSchema }, async (request, reply) => {
    const signal = streams.admit(request, reply)
    return sendLines(reply, lines(await service.eraseData(callerOf(request), request.query.owner), signal))
  })
}
