import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { deferred } from './deferred.ts'
import { slotFolder } from './host/run-folder.ts'
import { sweepCluster } from './host/sweep.ts'

/**
 * A separate process that cleans up after the owner of a cluster. When the owner ends, for any reason, it removes the
 * folder and control groups, which the kernel does not remove by itself.
 */
export interface Undertaker {
  /** Ends the process and waits for it. If the cluster folder still exists, the process cleans up first. */
  dismiss(): Promise<void>
}

/** Waits in a shell, which uses about 1 MB of memory, and starts Node only if there is something to clean up. */
const SCRIPT = 'cat > /dev/null; [ -d "$1" ] && exec "$2" "$3" "$4"; exit 0'

export function startUndertaker(slot: number): Undertaker {
  const args = [
    '-c',
    SCRIPT,
    'undertaker',
    slotFolder(slot),
    process.execPath,
    join(import.meta.filename),
    String(slot),
  ]
  const child = spawn('sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'], cwd: '/' })
  child.stdin.on('error', () => undefined)
  const { promise: ended, resolve } = deferred()
  child.on('exit', () => resolve()).on('error', () => resolve())
  child.unref()
  return {
    async dismiss() {
      child.ref()
      child.stdin.end()
      await ended
    },
  }
}

if (process.argv[1] === import.meta.filename) await sweepCluster(Number(process.argv[2]))
