import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { FileListing } from '../../../contracts/api.ts'
import { FILE_LIMITS } from '../../../contracts/limits.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { callerOf } from '../http/authenticate.ts'
import { operateOnFile } from '../http/file-operation.ts'
import {
  bytesBody,
  bytesOf,
  GUARDED,
  MutationHeaders,
  problems,
  RunParams,
  wholeNumber,
} from '../http/schemas.ts'
import type { RouteDeps } from './deps.ts'
import { SandboxParams } from './sandboxes.ts'

const BYTES = 'application/octet-stream'
const schema = { ...GUARDED, tags: ['files'] }
const mutation = { ...schema, headers: MutationHeaders }
const Path = z.string().max(FILE_LIMITS.maxPathBytes)
/** Permission bits of a file in octal. Set-user-ID and set-group-ID bits cannot be set. */
const Mode = z.string().regex(/^[0-7]{3}$/, 'must be three octal digits, such as 755')

/** Operation ids must be unique in the document, and these routes are registered twice. */
const ofRun = { name: 'Run', params: RunParams }
const ofSandbox = { name: 'Sandbox', params: SandboxParams }
const ownerOf = (prefix: string) => (prefix === API_ROUTES.runs ? ofRun : ofSandbox)

/** The files in the sandbox of a run. The same routes serve sandboxes without an agent. */
export const fileRoutes: FastifyPluginAsyncZod<RouteDeps> = async (
  app,
  { service, once, streams, downloads },
) => {
  const deps = { service, once, streams, downloads }
  await app.register(fileReadingRoutes, deps)
  await app.register(fileWritingRoutes, deps)
}

const fileReadingRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service }) => {
  const { name, params } = ownerOf(app.prefix)
  const listSchema = {
    ...schema,
    operationId: `list${name}Files`,
    summary: 'List a folder',
    params,
    querystring: z.strictObject({
      dir: Path.default('.'),
      after: Path.optional(),
      limit: wholeNumber({ min: 1, max: FILE_LIMITS.listPage }).optional(),
    }),
    response: { 200: FileListing, ...problems(403, 404, 409, 502, 503) },
  }
  app.get('/:id/files', { schema: listSchema }, async (request) => {
    const { dir, ...page } = request.query
    const target = { caller: callerOf(request), id: request.params.id }
    const { result } = await operateOnFile(service, target, { operation: { op: 'list', path: dir, ...page } })
    return { entries: result.entries ?? [], ...(result.next !== undefined && { next: result.next }) }
  })

  const readSchema = {
    ...schema,
    operationId: `read${name}File`,
    summary: 'Read a file, or a part of it',
    params: params.extend({ '*': Path }),
    querystring: z.strictObject({
      offset: wholeNumber().optional(),
      length: wholeNumber({ min: 1, max: FILE_LIMITS.maxReadBytes }).optional(),
    }),
    response: {
      200: bytesOf(BYTES),
      ...problems(403, 404, 409, 413, 502, 503),
    },
  }
  app.get('/:id/files/*', { schema: readSchema }, async (request, reply) => {
    const { id, '*': path } = request.params
    const operation = { op: 'read', path, ...request.query } as const
    const { payload } = await operateOnFile(service, { caller: callerOf(request), id }, { operation })
    return reply.type(BYTES).send(Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength))
  })
}

const fileWritingRoutes: FastifyPluginAsyncZod<RouteDeps> = async (app, { service, once }) => {
  const { name, params } = ownerOf(app.prefix)
  const bodyLimit = FILE_LIMITS.maxWriteBytes
  app.addContentTypeParser(
    BYTES,
    { parseAs: 'buffer', bodyLimit },
    async (_request: unknown, body: Buffer) => body,
  )

  const writeSchema = {
    ...mutation,
    operationId: `write${name}File`,
    summary: 'Write a file',
    consumes: [BYTES],
    params: params.extend({ '*': Path }),
    querystring: z.strictObject({
      create: z.enum(['never', 'allowed', 'exclusive']).optional(),
      mode: Mode.optional(),
    }),
    body: bytesBody(Buffer, `must be bytes of type ${BYTES}`),
    response: { 204: z.null(), ...problems(403, 404, 409, 413, 415, 502, 503) },
  }
  app.put('/:id/files/*', { bodyLimit, schema: writeSchema }, async (request, reply) => {
    const { id, '*': path } = request.params
    const { mode, ...query } = request.query
    const bits = mode === undefined ? {} : { mode: Number.parseInt(mode, 8) }
    const operation = { op: 'write', path, ...query, ...bits } as const
    const target = { caller: callerOf(request), id }
    await once(request, reply, async () => {
      await operateOnFile(service, target, { operation, payload: request.body })
    })
    return reply.code(204).send(null)
  })

  const deleteSchema = {
    ...mutation,
    operationId: `delete${name}File`,
    summary: 'Delete a file or a folder',
    params: params.extend({ '*': Path }),
    querystring: z.strictObject({ recursive: z.enum(['true', 'false']).optional() }),
    response: { 204: z.null(), ...problems(403, 404, 409, 502, 503) },
  }
  app.delete('/:id/files/*', { schema: deleteSchema }, async (request, reply) => {
    const { id, '*': path } = request.params
    const operation = { op: 'delete', path, recursive: request.query.recursive === 'true' } as const
    await once(request, reply, async (caller) => {
      await operateOnFile(service, { caller: caller, id }, { operation })
    })
    return reply.code(204).send(null)
  })
}
