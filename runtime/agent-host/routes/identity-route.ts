import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { AGENT_HOST_ROUTES } from '../../../contracts/routes.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'

/** `GET /identity`: the pod's token as the kubelet last wrote it, so that a caller knows to whom it talks. */
export function registerIdentityRoute(app: FastifyInstance, tokenFile: string): void {
  app.get(AGENT_HOST_ROUTES.identity, async (_request, reply) => {
    const token = await readFile(tokenFile, 'utf8').catch((error: unknown) => {
      throw unreadable(tokenFile, error)
    })
    const { IdentityReply } = await import('../../../contracts/configure.ts')
    return reply.header('cache-control', 'no-store').send(IdentityReply.parse({ token: token.trim() }))
  })
}

const unreadable = (file: string, cause: unknown) =>
  new SandboxError('unavailable', `the identity token cannot be read from ${file}: ${messageOf(cause)}`, {
    cause,
  })
