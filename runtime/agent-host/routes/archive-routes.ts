import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import type { FileError } from '../../../contracts/files.ts'
import { CONFIGURE_LIMITS, FILE_LIMITS } from '../../../contracts/limits.ts'
import { AGENT_HOST_ROUTES, JSON_LINES_MEDIA_TYPE, TAR_MEDIA_TYPE } from '../../../contracts/routes.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { RunSession } from '../session/run-session.ts'
import type { HostStateMachine } from '../state.ts'

export type ArchiveRoutesDeps = { readonly machine: HostStateMachine; readonly session: () => RunSession }

const refuse = (error: FileError): never => {
  throw new SandboxError(error.code === 'too_large' ? 'payload_too_large' : 'invalid_request', error.message)
}

/** Uploads and downloads the workspace and the agent session as tar streams, and the parts of a checkpoint of the workspace. */
export function registerArchiveRoutes(scope: FastifyInstance, { machine, session }: ArchiveRoutesDeps): void {
  const routes: FastifyPluginAsync = async (archives) => {
    archives.addContentTypeParser(TAR_MEDIA_TYPE, (_request, payload, done) => done(null, payload))

    archives.put(AGENT_HOST_ROUTES.workspace, { bodyLimit: FILE_LIMITS.maxArchiveBytes }, async (request) => {
      const { toolbox, turns } = session()
      if (turns?.list().length)
        throw new SandboxError('conflict', 'the workspace can only be uploaded before the first turn')
      const done = await toolbox.tarIn(bodyOf(request))
      if (done.error) refuse(done.error)
      return { entries: done.entries, bytes: done.bytes }
    })

    archives.get(AGENT_HOST_ROUTES.workspace, async (_request, reply) =>
      reply.type(TAR_MEDIA_TYPE).send(await streamOf(session().toolbox.tarOut())),
    )
    archives.post(AGENT_HOST_ROUTES.manifest, async (_request, reply) =>
      reply.type(JSON_LINES_MEDIA_TYPE).send(await streamOf(session().toolbox.manifest())),
    )
    archives.post(AGENT_HOST_ROUTES.pack, async (request, reply) => {
      const { PackRequest } = await import('../../../contracts/workspace-manifest.ts')
      const { contents } = PackRequest.parse(request.body)
      return reply.type('application/octet-stream').send(await streamOf(session().toolbox.pack(contents)))
    })

    archives.put(
      AGENT_HOST_ROUTES.session,
      { bodyLimit: CONFIGURE_LIMITS.maxSessionBytes },
      async (request, reply) => {
        const { status } = machine
        const awaited = 'taken' in status ? status.taken?.awaitedSession : undefined
        if (!awaited || status.state !== 'configuring') {
          throw new SandboxError(
            'conflict',
            '/configure announced no session, or the session has arrived already',
          )
        }
        awaited.arrived(await collect(bodyOf(request), awaited.announced.bytes))
        return reply.code(202).send({ accepted: true })
      },
    )

    archives.get(AGENT_HOST_ROUTES.session, async (_request, reply) =>
      reply.type(TAR_MEDIA_TYPE).send(Buffer.from(await session().exportSession())),
    )
  }
  scope.register(routes)
}

/** An error before the first piece is reported as an error response, and not as a stream that breaks off. */
async function streamOf(pieces: AsyncGenerator<Uint8Array>): Promise<Readable> {
  const first = await pieces.next()
  const all = async function* () {
    if (first.done) return
    yield first.value
    yield* pieces
  }
  return Readable.from(all(), { objectMode: false })
}

const bodyOf = (request: FastifyRequest) => request.body as AsyncIterable<Uint8Array>

/** Buffers a stream. Throws `payload_too_large` if it exceeds the announced length. */
async function collect(source: AsyncIterable<Uint8Array>, bytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let total = 0
  for await (const chunk of source) {
    total += chunk.length
    if (total > bytes)
      throw new SandboxError('payload_too_large', `the session is longer than the ${bytes} announced bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
