import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'

/**
 * `GET /identity`: returns the pod's service account token, which proves to the caller which pod it reached. The file is in
 * a tmpfs, so a synchronous read is faster than a round trip through the thread pool.
 */
export function registerIdentityRoute(app: FastifyInstance, tokenFile: string): void {
  app.get(AGENT_HOST_ROUTES.identity, async (_request, reply) => {
    const token = readToken(tokenFile)
    const { IdentityReply } = await import('../../../contracts/configure.ts')
    return reply.header('cache-control', 'no-store').send(IdentityReply.parse({ token: token.trim() }))
  })
}

function readToken(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw unreadable(file, error)
  }
}

const unreadable = (file: string, cause: unknown) =>
  new SandboxError('unavailable', `the identity token cannot be read from ${file}: ${messageOf(cause)}`, {
    cause,
  })
