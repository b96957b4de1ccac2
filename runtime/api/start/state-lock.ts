import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SandboxError } from '../../kit/errors.ts'

/** SQLITE_BUSY: another connection holds the file. */
const BUSY = 5

/**
 * Holds the state folder for this process: two services on it would each take the other's runs for leftovers of
 * a dead one. The lock is the operating system's on an open SQLite file, so it ends with the process, however it
 * ends. Returns what lets it go.
 */
export function lockStateFolder(stateDir: string): () => void {
  const file = new DatabaseSync(join(stateDir, 'lock'), { timeout: 0 })
  try {
    file.exec('PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE')
  } catch (error) {
    file.close()
    throw refusal(stateDir, error)
  }
  return () => file.close()
}

function refusal(stateDir: string, cause: unknown): unknown {
  const isBusy = cause instanceof Error && 'errcode' in cause && cause.errcode === BUSY
  if (!isBusy) return cause
  return new SandboxError(
    'unavailable',
    `Another service works with ${stateDir}: stop it, or give this one a folder of its own with AGENTWEAVER_STATE_DIR.`,
    { cause },
  )
}
