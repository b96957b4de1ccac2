import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive } from '../host/process-identity.ts'
import { sweepCluster } from '../host/sweep.ts'
import type { FoundCluster } from './choose-cluster.ts'

/** Time limit of an orderly stop before the cluster is killed. */
const ORDERLY_MS = 15_000

/** Stops a cluster through its owner process, or directly if the owner does not respond. */
export async function takeDown({ slot, folder, state }: FoundCluster): Promise<void> {
  if (isAlive(state.owner)) process.kill(state.owner.pid, 'SIGTERM')
  const deadline = Date.now() + ORDERLY_MS
  while (isAlive(state.owner) && Date.now() < deadline) await sleep(20)
  if (isAlive(state.owner)) process.kill(state.owner.pid, 'SIGKILL')
  if (existsSync(folder)) await sweepCluster(slot)
}
