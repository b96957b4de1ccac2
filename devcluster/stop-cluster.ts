import { readFileSync } from 'node:fs'
import type { ClusterContext } from './cluster-context.ts'
import { readState } from './host/run-folder.ts'
import { sweepCluster } from './host/sweep.ts'

/**
 * Stops a cluster and deletes everything of it. The data is deleted too, so no program needs a clean shutdown. Killing
 * the first process of a node's namespaces ends all processes in them. The other programs are stopped individually, the
 * last ones from the state file.
 */
export async function stopCluster(context: ClusterContext): Promise<void> {
  for (const { pid } of readState(context.folder)?.nodes ?? []) killNamespaces(pid)
  await context.close()
  await sweepCluster(context.slot)
}

/** Kills the process only if it is still a node's pause process, because the PID may have been reused. */
function killNamespaces(pid: number): void {
  try {
    if (readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'pause') process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
