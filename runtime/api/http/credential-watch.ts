import type { FastifyInstance } from 'fastify'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { Store } from '../../store/store.ts'
import type { OpenReplies } from './open-replies.ts'

const LOOK_EVERY_MS = 1000

type Deps = {
  readonly replies: readonly OpenReplies[]
  readonly store: Pick<Store, 'listUnusableApiKeys'>
  readonly log: Log
  readonly now: () => Date
}

/**
 * Ends open streams and downloads whose API key was revoked or whose credential expired, within about a second. Other
 * requests are short, and each one reads its key from the store.
 */
export function endRepliesOfInvalidCredentials(app: FastifyInstance, deps: Deps): void {
  let isLooking = false
  const look = async () => {
    if (isLooking) return
    isLooking = true
    try {
      await endInvalid(deps)
    } catch (error) {
      deps.log.warn('could not check the credentials of open streams', { error: messageOf(error) })
    } finally {
      isLooking = false
    }
  }
  const timer = setInterval(() => void look(), LOOK_EVERY_MS).unref()
  app.addHook('preClose', async () => clearInterval(timer))
}

/** Expiry is in the credential, so it counts although the store cannot be read. */
async function endInvalid({ replies, store, now }: Deps): Promise<void> {
  const at = now()
  for (const open of replies)
    open.endWhere(({ expiresAt }) => expiresAt !== undefined && expiresAt <= at.getTime())
  const ids = new Set(replies.flatMap((open) => open.apiKeyIds()))
  const unusable = new Set(await store.listUnusableApiKeys([...ids], at.toISOString()))
  for (const open of replies)
    open.endWhere(({ apiKeyId }) => apiKeyId !== undefined && unusable.has(apiKeyId))
}
