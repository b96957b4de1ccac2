import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'

/** Every id of the service is shorter: the longest have a prefix of four characters and 32 hexadecimal digits. */
export const MAX_ID_CHARACTERS = 100

/** The parameter of a wildcard route: a path in the workspace, which has a limit of its own. */
const PATH_PARAM = '*'

/**
 * Returns 404 for an id in the path that is longer than any id. The router's own limit would reject the request before
 * the hooks of the app: without a check of the host and the key, without the rate limit, and outside problem details.
 */
export function refuseLongIds(scope: FastifyInstance): void {
  scope.addHook('onRequest', async ({ params }: FastifyRequest) => {
    for (const [name, value] of Object.entries(params as Record<string, string>)) {
      if (name === PATH_PARAM || value.length <= MAX_ID_CHARACTERS) continue
      throw new SandboxError(
        'not_found',
        `There is nothing with this ${name}: it has ${value.length} characters, and ids have at most ${MAX_ID_CHARACTERS}.`,
      )
    }
  })
}
