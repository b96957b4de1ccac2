import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import type { ApiKeyRow } from '../../store/service-rows.ts'
import type { Store } from '../../store/store.ts'

/** The time of the last use is written at most once a minute, so that a request rarely costs a write. */
const NOTED_EVERY_MS = 60_000
const MAX_REMEMBERED = 10_000

type Deps = { readonly store: Pick<Store, 'noteApiKeyUse'>; readonly log: Log; readonly now: () => Date }

/** Records when each API key was last used. A request does not wait for it, and does not fail with it. */
export function createKeyUses({ store, log, now }: Deps): (key: ApiKeyRow) => void {
  const noted = new Map<string, number>()
  return ({ id, lastUsedAt }) => {
    const at = now()
    const last = noted.get(id) ?? Date.parse(lastUsedAt ?? '1970-01-01T00:00:00.000Z')
    if (at.getTime() - last < NOTED_EVERY_MS) return
    if (noted.size >= MAX_REMEMBERED) noted.clear()
    noted.set(id, at.getTime())
    store.noteApiKeyUse(id, at.toISOString()).catch((error: unknown) => {
      log.debug('the last use of an API key was not recorded', { key: id, error: messageOf(error) })
    })
  }
}
