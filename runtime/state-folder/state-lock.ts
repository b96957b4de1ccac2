import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SandboxError } from '../kit/errors.ts'
import { Distrust, openPrivateFolder } from './private-folder.ts'
import { type RunningService, readServiceFile } from './service-file.ts'

/** SQLITE_BUSY: another connection holds the file. */
const BUSY = 5

export const LOCK_FILE = 'lock'

/**
 * Locks a state folder for this process: two services on it would each treat the other's runs as remains of a dead
 * service. It is an operating system lock on an open SQLite file, so it always ends with the process. Returns the
 * function that releases it.
 */
export function lockStateFolder(stateDir: string): () => void {
  const path = join(stateDir, LOCK_FILE)
  // SQLite would create the file readable by all users; its journal inherits the file's permissions.
  closeSync(openSync(path, 'a', 0o600))
  const file = new DatabaseSync(path, { timeout: 0 })
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
  return new SandboxError('unavailable', busyWords(stateDir, runningService(stateDir)), { cause })
}

function runningService(stateDir: string): RunningService | undefined {
  try {
    using folder = openPrivateFolder(stateDir)
    return folder && readServiceFile(folder)
  } catch (error) {
    if (error instanceof Distrust) return undefined
    throw error
  }
}

const OWN_FOLDER =
  'A second service needs a separate folder and port: AGENTWEAVER_STATE_DIR, AGENTWEAVER_PORT.'

/** There is one service for each state folder, also where several clones of this repository are. */
function busyWords(stateDir: string, service: RunningService | undefined): string {
  if (!service)
    return `Another service is starting or stopping with the state folder ${stateDir}.\n${OWN_FOLDER}`
  const { pid, url, startedIn } = service
  return [
    `The service is running already: process ${pid}, started in ${startedIn}, at ${url}, state in ${stateDir}.`,
    'The command line uses it from any folder. Stop it with Ctrl-C where it runs.',
    OWN_FOLDER,
  ].join('\n')
}
