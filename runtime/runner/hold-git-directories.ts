import type { HeldEntries } from '../../contracts/events.ts'
import { HELD_ID } from '../../contracts/runner.ts'
import type { Bound } from './binding.ts'
import type { Connection } from './connection.ts'

/** Searches that several commands waited for are told once; that they are not complete, once for a workspace. */
const told = new WeakSet<object>()

/** Has git directories renamed that were not there when the run began, and tells AgentHost. */
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
