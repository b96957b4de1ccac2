import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { removeCgroup } from './cgroups.ts'
import { deleteLink } from './links.ts'
import { isAlive } from './process-identity.ts'
import { type ClusterState, folderAgeMs, listSlots, readState, slotFolder } from './run-folder.ts'

const DEADLINE_MS = 10_000
/** A folder without a state file is being set up, or its owner died during the setup. */
const STATELESS_MS = 20_000

/** Removes all that a cluster has on this machine: processes, link, control groups, folder. Safe to repeat. */
export async function sweepCluster(slot: number): Promise<void> {
  const folder = slotFolder(slot)
  const state = readState(folder)
  if (state) await endProcesses(state)
  if (state?.link) await deleteLink(state.link)
  if (state) await removeCgroups(state.cgroups)
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
}

async function endProcesses({ processes }: ClusterState): Promise<void> {
  for (const record of processes) {
    if (isAlive(record)) process.kill(record.pid, 'SIGKILL')
  }
  const deadline = Date.now() + DEADLINE_MS
  while (processes.some(isAlive) && Date.now() < deadline) await sleep(20)
}

/** Processes of a killed namespace need a moment to leave their control groups. */
async function removeCgroups(folders: readonly string[]): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS
  let left = folders.filter((folder) => !removeCgroup(folder))
  while (left.length > 0 && Date.now() < deadline) {
    await sleep(20)
    left = left.filter((folder) => !removeCgroup(folder))
  }
}

/**
 * Cleans up after clusters whose owner and clean-up process were both killed. Returns the slots of these clusters.
 */
export async function sweepDeadClusters(): Promise<number[]> {
  const dead = listSlots().filter(isDead)
  for (const slot of dead) await sweepCluster(slot)
  return dead
}

function isDead(slot: number): boolean {
  const state = readState(slotFolder(slot))
  return state ? !isAlive(state.owner) : folderAgeMs(slotFolder(slot)) > STATELESS_MS
}
