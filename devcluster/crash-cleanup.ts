import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { deferred } from './deferred.ts'
import { slotFolder } from './host/run-folder.ts'
import { sweepCluster } from './host/sweep.ts'

/**
 * Watches the process that owns a cluster from another process. If the owner ends for any reason, this process removes
 * the remains that the kernel does not remove by itself (folder, control groups).
 */
export interface CrashCleanup {
  /** Signals that there is nothing to clean up, and waits until the process has ended. */
  stop(): Promise<void>
}

/** Waits in a shell, which needs only a megabyte, and starts Node only if there is something to clean up. */
const SCRIPT = 'cat > /dev/null; [ -d "$1" ] && exec "$2" "$3" "$4"; exit 0'

export function startCrashCleanup(slot: number): CrashCleanup {
  const args = [
    '-c',
    SCRIPT,
    'crash-cleanup',
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
    async stop() {
      child.ref()
      child.stdin.end()
      await ended
    },
  }
}

if (process.argv[1] === import.meta.filename) await sweepCluster(Number(process.argv[2]))
