import { Readable } from 'node:stream'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { Run } from '../../../contracts/api.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import { TAR_MEDIA_TYPE } from '../../../contracts/routes.ts'
import { callerOf } from '../http/authenticate.ts'
import { boundStream } from '../http/bound-stream.ts'
import { bytesBody, bytesOf, GUARDED, MutationHeaders, problems, RunParams } from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'

const tags = ['workspace']

export const workspaceRoutes: FastifyPluginAsyncZod<RouteDeps> = async (
  app,
  { service, once, downloads },
) => {
  // The body is passed on as a stream, because a workspace is too large for a buffer.
  app.addContentTypeParser(TAR_MEDIA_TYPE, (_request, payload, done) => done(null, payload))

  app.put(
    '/:id/workspace',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'uploadRunWorkspace',
        summary: 'Upload the workspace of a run that waits for it, as a tar stream; the run then starts',
        consumes: [TAR_MEDIA_TYPE],
        headers: MutationHeaders,
        params: RunParams,
        body: bytesBody(Readable, `must be a tar archive of type ${TAR_MEDIA_TYPE}`),
        response: { 200: Run, ...problems(404, 409, 413, 415) },
      },
    },
    async (request, reply) => {
      const archive = boundStream(
        request.body,
        FILE_LIMITS.maxArchiveBytes,
        request.headers['content-length'],
      )
      return once(request, reply, (caller) => service.uploadWorkspace(caller, request.params.id, archive))
    },
  )

  app.get(
    '/:id/workspace',
    {
      schema: {
        ...GUARDED,
        tags,
        operationId: 'downloadRunWorkspace',
        summary: 'Download the workspace as a tar stream',
        params: RunParams,
        response: {
          200: bytesOf(TAR_MEDIA_TYPE),
          ...problems(404, 409, 502, 503),
        },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      return downloads.send(request, reply, async (signal) => {
        const archive = await service.downloadWorkspace(callerOf(request), id, signal)
        reply.header('content-disposition', `attachment; filename="${id}.tar"`).type(TAR_MEDIA_TYPE)
        return archive
      })
    },
  )
}
