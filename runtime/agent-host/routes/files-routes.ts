import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { FileErrorCode, FileOperationInput, FileResult } from '../../../contracts/files.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import type { Toolbox } from '../../../contracts/toolbox.ts'

/** HTTP status per error code of the workspace engine; all other codes are 400. The body is the engine's result. */
const STATUS: Partial<Record<FileErrorCode, number>> = {
  not_found: 404,
  exists: 409,
  not_empty: 409,
  too_large: 413,
  denied: 403,
  io_error: 500,
  timeout: 504,
}
const statusOf = (result: FileResult) => (result.ok ? 200 : (STATUS[result.code] ?? 400))
const pathOf = (request: FastifyRequest): string => (request.params as { '*': string })['*']

/** Loaded after the start, to keep the start short. */
const queries = () => import('./files-queries.ts')

/** Reads and writes workspace files. File contents are sent as bytes, everything else as the engine's `FileResult`. */
export function registerFilesRoutes(scope: FastifyInstance, toolbox: () => Toolbox): void {
  const url = `${AGENT_HOST_ROUTES.files}/*`
  const answer = async (reply: FastifyReply, operation: FileOperationInput, payload?: Uint8Array) => {
    const { result } = await toolbox().file(operation, payload ? { payload } : {})
    return reply.code(statusOf(result)).send(result)
  }

  const routes: FastifyPluginAsync = async (files) => {
    files.removeAllContentTypeParsers()
    files.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))

    files.get(AGENT_HOST_ROUTES.files, async (request, reply) => {
      const { ListQuery } = await queries()
      const { dir, after, limit } = ListQuery.parse(request.query)
      return answer(reply, { op: 'list', path: dir, limit, ...(after !== undefined && { after }) })
    })
    files.get(url, async (request, reply) => {
      const { ReadQuery } = await queries()
      const { offset, length } = ReadQuery.parse(request.query)
      const { result, payload } = await toolbox().file({
        op: 'read',
        path: pathOf(request),
        ...(offset !== undefined && { offset }),
        ...(length !== undefined && { length }),
      })
      if (!result.ok) return reply.code(statusOf(result)).send(result)
      return reply.type('application/octet-stream').send(Buffer.from(payload))
    })
    files.put(url, { bodyLimit: FILE_LIMITS.maxWriteBytes }, async (request, reply) => {
      const { WriteQuery } = await queries()
      const { create, mode } = WriteQuery.parse(request.query)
      const payload = request.body instanceof Buffer ? request.body : Buffer.alloc(0)
      const operation = {
        op: 'write',
        path: pathOf(request),
        create,
        ...(mode !== undefined && { mode }),
      } as const
      return answer(reply, operation, payload)
    })
    files.delete(url, async (request, reply) => {
      const { DeleteQuery } = await queries()
      const { recursive } = DeleteQuery.parse(request.query)
      return answer(reply, { op: 'delete', path: pathOf(request), recursive })
    })
  }
  scope.register(routes)
}
