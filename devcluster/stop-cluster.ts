import { readFileSync } from 'node:fs'
import type { ClusterContext } from './cluster-context.ts'
import { readState } from './host/run-folder.ts'
import { sweepCluster } from './host/sweep.ts'

/**
 * Stops a cluster and removes everything of it. Its data is removed too, so nothing needs a gentle shutdown: the first
 * process of each node's namespaces ends all others with it, and the remaining processes in the state file are killed.
 */
export async function stopCluster(context: ClusterContext): Promise<void> {
  for (const { pid } of readState(context.folder)?.nodes ?? []) killNamespaces(pid)
  await context.close()
  await sweepCluster(context.slot)
}

/** Only when it still is the pause process that holds a node: the number could have been used again. */
function killNamespaces(pid: number): void {
  try {
    if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'pause') process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
