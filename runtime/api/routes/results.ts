import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { PushedResults, PushResults } from '../../../contracts/push.ts'
import { BUNDLE_MEDIA_TYPE, PATCH_MEDIA_TYPE, RunDiff } from '../../../contracts/results.ts'
import { callerOf } from '../http/authenticate.ts'
import { bytesOf, GUARDED, MutationHeaders, problems, RunParams } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const schema = { ...GUARDED, tags: ['results'], params: RunParams, querystring: z.strictObject({}) }

/** Changes of a run in a user's folder or repository. They are collected once, when the run ends. */
export const resultRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, downloads, once }) => {
  const diffSchema = {
    ...schema,
    operationId: 'getRunDiff',
    summary: 'Read the changes that a run made in its folder',
    response: { 200: RunDiff, ...problems(404, 409) },
  }
  app.get('/:id/diff', { schema: diffSchema }, async (request) =>
    service.readDiff(callerOf(request), request.params.id),
  )

  const patchSchema = {
    ...schema,
    operationId: 'getRunPatch',
    summary: 'Read the changes as a unified diff, with secrets redacted',
    response: { 200: bytesOf(PATCH_MEDIA_TYPE), ...problems(404, 409) },
  }
  app.get('/:id/diff/patch', { schema: patchSchema }, async (request, reply) => {
    return downloads.send(request, reply, async () => {
      const patch = await service.readPatch(callerOf(request), request.params.id)
      reply.type(PATCH_MEDIA_TYPE)
      return patch
    })
  })

  const bundleSchema = {
    ...schema,
    operationId: 'getRunBundle',
    summary: "Read the run's commits as a git bundle with one ref; it is not redacted",
    response: { 200: bytesOf(BUNDLE_MEDIA_TYPE), ...problems(404, 409) },
  }
  app.get('/:id/bundle', { schema: bundleSchema }, async (request, reply) => {
    const { id } = request.params
    return downloads.send(request, reply, async () => {
      const bundle = await service.readBundle(callerOf(request), id)
      reply.header('content-disposition', `attachment; filename="${id}.bundle"`).type(BUNDLE_MEDIA_TYPE)
      return bundle
    })
  })

  const pushSchema = {
    ...GUARDED,
    tags: ['results'],
    headers: MutationHeaders,
    params: RunParams,
    body: PushResults,
    operationId: 'pushRunResults',
    summary: 'Push the commits of a run on a repository to a branch of the run',
    response: { 200: PushedResults, ...problems(403, 404, 409, 413, 415, 502, 503) },
  }
  app.post('/:id/push', { schema: pushSchema }, async (request, reply) =>
    once(request, reply, (caller) => service.pushResults(caller, request.params.id, request.body)),
  )
}
