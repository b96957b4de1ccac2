import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { Restriction, RestrictionList, SetRestriction } from '../../../contracts/restrictions.ts'
import { callerOf } from '../http/authenticate.ts'
import { GUARDED, MutationHeaders, problems } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['policy'] }

/** Restrictions of runs that are in force at once, also for runs that work. */
export const restrictionRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  const listSchema = {
    ...schema,
    operationId: 'listRestrictions',
    summary: 'List the restrictions in force',
    response: { 200: RestrictionList, ...problems() },
  }
  app.get('', { schema: listSchema }, async (request) => service.listRestrictions(callerOf(request)))

  const setSchema = {
    ...schema,
    operationId: 'setRestriction',
    summary: 'Restrict a run, the runs of an owner, or all runs; the level normal lifts the restriction',
    headers: MutationHeaders,
    body: SetRestriction,
    response: { 200: Restriction, ...problems(403, 404, 409, 415) },
  }
  app.put('', { schema: setSchema }, async (request, reply) =>
    once(request, reply, (caller) => service.setRestriction(caller, request.body)),
  )
}
