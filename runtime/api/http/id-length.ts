import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SandboxError } from '../../kit/errors.ts'

/** Upper bound for ids. Real ones have a prefix of four characters and 32 hexadecimal digits. */
export const MAX_ID_CHARACTERS = 100

/** Parameter of a wildcard route. It is a workspace path and has its own limit. */
const PATH_PARAM = '*'

/**
 * Returns 404 for an id in the path that is longer than any id. The router's own limit would reject the request before
 * the hooks run: without host check, API key, rate limit or problem details.
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
