import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive } from '../host/process-identity.ts'
import { sweepCluster } from '../host/sweep.ts'
import type { FoundCluster } from './choose-cluster.ts'

/** Time for the owner to stop the cluster in order. Afterwards the owner is killed. */
const ORDERLY_MS = 15_000

/** Asks the owner process to stop the cluster. If the owner is dead or too slow, cleans up in its place. */
export async function takeDown({ slot, folder, state }: FoundCluster): Promise<void> {
  if (isAlive(state.owner)) process.kill(state.owner.pid, 'SIGTERM')
  const deadline = Date.now() + ORDERLY_MS
  while (isAlive(state.owner) && Date.now() < deadline) await sleep(20)
  if (isAlive(state.owner)) process.kill(state.owner.pid, 'SIGKILL')
  if (existsSync(folder)) await sweepCluster(slot)
}
