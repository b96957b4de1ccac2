import type { HeldEntries } from '../../contracts/events.ts'
import { HELD_ID } from '../../contracts/runner.ts'
import type { Bound } from './binding.ts'
import type { Connection } from './connection.ts'

/** Searches that several commands waited for are told once. */
const told = new WeakSet<HeldEntries>()

/** Has git directories renamed that were not there when the run began, and tells AgentHost. */
export async function holdGitDirectories(
  connection: Connection,
  { watch }: Bound,
): Promise<HeldEntries | undefined> {
  const held = await watch?.hold()
  if (!held || held.count === 0 || told.has(held)) return held
  told.add(held)
  await connection.send({ type: 'held', id: HELD_ID, held })
  return held
}
