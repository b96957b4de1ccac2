import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { repeat } from '../runs/repeat.ts'
import type { LoadedKeys } from './load-keys.ts'

/** About the time that a kubelet needs to update a mounted Secret. */
export const REREAD_EVERY_MS = 60_000

/**
 * Follows the rotation of provided keys while the service runs. An unreadable or invalid key is logged, and the current
 * key stays in use. Keys that the service created itself are not rotated.
 */
export function followKeys(
  reread: LoadedKeys['reread'],
  log: Log,
  everyMs = REREAD_EVERY_MS,
): { stop(): Promise<void> } {
  if (!reread) return { stop: async () => undefined }
  return repeat(async () => {
    try {
      if (await reread()) log.info('tickets are now signed with a new key')
    } catch (error) {
      log.error('could not read the keys again; the current keys stay in use', { error: messageOf(error) })
    }
  }, everyMs)
}
