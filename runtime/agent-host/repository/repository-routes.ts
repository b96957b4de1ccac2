import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { CloneLine } from '../../../contracts/git-source.ts'
import { AGENT_HOST_ROUTES, JSON_LINES_MEDIA_TYPE } from '../../../contracts/routes.ts'
import { AsyncQueue } from '../../kit/async-queue.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { RunSession } from '../session/run-session.ts'

/**
 * Clones a repository into the workspace before the first turn, reports the changes of a run, and pushes the commits of
 * another run for a person.
 */
export function registerRepositoryRoutes(
  scope: FastifyInstance,
  { session, log }: { readonly session: () => RunSession; readonly log: Log },
): void {
  let isCloning = false

  scope.post(AGENT_HOST_ROUTES.clone, async (request, reply) => {
    const { toolbox, turns } = session()
    if (isCloning || turns?.list().length)
      throw new SandboxError(
        'conflict',
        'a repository can only be cloned once at a time, before the first turn',
      )
    const [{ CloneRequest }, { cloneRepository }] = await Promise.all([
      import('../../../contracts/git-source.ts'),
      import('./clone.ts'),
    ])
    const wanted = CloneRequest.parse(request.body)
    const lines = new AsyncQueue<CloneLine>()
    const stop = new AbortController()
    reply.raw.once('close', () => stop.abort(new SandboxError('conflict', 'the caller left')))
    isCloning = true
    cloneRepository(toolbox, wanted, {
      signal: stop.signal,
      onProgress: (progress) => lines.push({ type: 'progress', ...progress }),
    })
      // Without a last line, the caller knows that the sandbox failed.
      .then((line) => lines.push(line))
      .catch((error) => log.warn('a clone ended without a result', { error }))
      .finally(() => {
        isCloning = false
        lines.end()
      })
    return reply.type(JSON_LINES_MEDIA_TYPE).send(Readable.from(asText(lines)))
  })

  scope.post(AGENT_HOST_ROUTES.changes, async (request, reply) => {
    const [{ ChangesRequest }, { streamChanges }] = await Promise.all([
      import('../../../contracts/git-source.ts'),
      import('./changes.ts'),
    ])
    const changes = streamChanges(session().toolbox, ChangesRequest.parse(request.body))
    await begun(changes)
    return reply.type('application/octet-stream').send(changes)
  })

  scope.post(AGENT_HOST_ROUTES.openPush, async (request, reply) => {
    const [{ OpenPush }, { streamPushed }] = await Promise.all([
      import('../../../contracts/push.ts'),
      import('./push.ts'),
    ])
    const changes = streamPushed(session().toolbox, OpenPush.parse(request.body))
    await begun(changes)
    return reply.type('application/octet-stream').send(changes)
  })

  scope.post(AGENT_HOST_ROUTES.sendPush, async (request, reply) => {
    const [{ SendPush }, { sendPush }] = await Promise.all([
      import('../../../contracts/push.ts'),
      import('./push.ts'),
    ])
    const stop = new AbortController()
    reply.raw.once('close', () => stop.abort(new SandboxError('conflict', 'the caller left')))
    return sendPush(session().toolbox, SendPush.parse(request.body), stop.signal)
  })
}

async function* asText(lines: AsyncIterable<CloneLine>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`
}

/** An error before the first byte is reported as an error response, and not as a stream that breaks off. */
const begun = (stream: Readable): Promise<void> =>
  new Promise((resolve, reject) => {
    stream.once('readable', resolve)
    stream.once('end', resolve)
    stream.once('error', reject)
  })
