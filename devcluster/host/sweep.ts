import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { killCgroup, removeCgroup } from './cgroups.ts'
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
  if (state) await removeCgroups(state)
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
}

async function endProcesses({ processes }: ClusterState): Promise<void> {
  for (const record of processes) {
    if (isAlive(record)) process.kill(record.pid, 'SIGKILL')
  }
  const deadline = Date.now() + DEADLINE_MS
  while (processes.some(isAlive) && Date.now() < deadline) await sleep(20)
}

/**
 * Ends what is still in the control groups, and removes them. Processes of a killed namespace need a moment to leave. One that
 * forked in the moment its parent was killed is in no state file and gets no signal of the kernel.
 */
async function removeCgroups({ slot, startedAt, cgroups }: ClusterState): Promise<void> {
  // Another sweep may have finished, and the next cluster may have taken the slot and its names.
  const isSame = () => readState(slotFolder(slot))?.startedAt === startedAt
  const isLeft = (folder: string) => !removeCgroup(folder)
  const deadline = Date.now() + DEADLINE_MS
  let left = cgroups.filter(isLeft)
  while (left.length > 0 && Date.now() < deadline && isSame()) {
    for (const folder of left) killCgroup(folder)
    await sleep(20)
    left = left.filter(isLeft)
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
