import type { HeldEntries } from '../../contracts/events.ts'
import { HELD_ID } from '../../contracts/runner.ts'
import type { Bound } from './binding.ts'
import type { Connection } from './connection.ts'

/**
 * Objects that AgentHost was notified of: each search result once, because several commands may share it, and
 * each incomplete workspace once.
 */
const told = new WeakSet<object>()

/** Renames git directories that did not exist before the run, and notifies AgentHost. */
export async function holdGitDirectories(
  connection: Connection,
  { watch }: Bound,
): Promise<HeldEntries | undefined> {
  const held = await watch?.hold()
  if (!watch || !held || told.has(held)) return held
  const isNews = held.count > 0 || (!held.isComplete && !told.has(watch))
  if (!isNews) return held
  told.add(held)
  if (!held.isComplete) told.add(watch)
  await connection.send({ type: 'held', id: HELD_ID, held })
  return held
}
