import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { repeat } from '../runs/repeat.ts'
import type { LoadedKeys } from './load-keys.ts'

/** A kubelet takes about as long to show a changed Secret in a folder. */
export const REREAD_EVERY_MS = 60_000

/**
 * Follows a rotation of given keys while the service runs. What cannot be read, or is no key, is said in the log, and
 * the key in use stays in use. Keys that the service made for itself are nobody's to change.
 */
export function followKeys(
  reread: LoadedKeys['reread'],
  log: Log,
  everyMs = REREAD_EVERY_MS,
): { stop(): Promise<void> } {
  if (!reread) return { stop: async () => undefined }
  return repeat(async () => {
    try {
      if (await reread()) log.info('tickets are signed with another key')
    } catch (error) {
      log.error('the keys could not be read again; those in use stay in use', { error: messageOf(error) })
    }
  }, everyMs)
}
