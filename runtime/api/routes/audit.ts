import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { AUDIT_LIMITS, AuditChain, AuditPage, AuditVerification } from '../../../contracts/audit.ts'
import { JSON_LINES_MEDIA_TYPE } from '../../../contracts/routes.ts'
import { callerOf } from '../http/authenticate.ts'
import { lines, sendLines } from '../http/json-lines.ts'
import { GUARDED, problems, RunParams, wholeNumber } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['audit'] }
const When = z.iso.datetime({ offset: true })

const AuditQuery = z.strictObject({
  limit: wholeNumber({ min: 1, max: AUDIT_LIMITS.maxPage }).default(AUDIT_LIMITS.defaultPage),
  after: z.string().max(256).optional(),
  tool: z.string().max(256).optional(),
  decision: z.string().max(64).optional(),
  since: When.optional(),
  until: When.optional(),
})
const OneChain = z.strictObject({ run: AuditChain.optional() })

/** Audit of one run. Its owner may read it. */
export const runAuditRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service }) => {
  const readSchema = {
    ...schema,
    operationId: 'listRunAudit',
    summary: 'List the audit records of a run, oldest first',
    params: RunParams,
    querystring: AuditQuery,
    response: { 200: AuditPage, ...problems(404, 409) },
  }
  app.get('/:id/audit', { schema: readSchema }, async (request) =>
    service.readRunAudit(callerOf(request), request.params.id, request.query),
  )
}

/** Audit of the deployment. Only operators may read it. */
export const auditRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, streams }) => {
  const listSchema = {
    ...schema,
    operationId: 'listAudit',
    summary: 'List the audit records of all runs and of the deployment, oldest first',
    querystring: AuditQuery.extend(OneChain.shape),
    response: { 200: AuditPage, ...problems(403, 409) },
  }
  app.get('', { schema: listSchema }, async (request) => service.readAudit(callerOf(request), request.query))

  const verifySchema = {
    ...schema,
    operationId: 'verifyAudit',
    summary: 'Verify the audit: one report per line, the complete report last',
    querystring: OneChain,
    response: {
      200: { content: { [JSON_LINES_MEDIA_TYPE]: { schema: AuditVerification } } },
      ...problems(403),
    },
  }
  app.get('/verification', { schema: verifySchema }, async (request, reply) => {
    const signal = streams.admit(request, reply)
    const reports = await service.verifyAudit(callerOf(request), request.query)
    return sendLines(reply, lines(reports, signal))
  })
}
