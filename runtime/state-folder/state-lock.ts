import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { delay } from '../kit/deadline.ts'
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
  try {
    return lockFile(join(stateDir, LOCK_FILE))
  } catch (error) {
    throw isBusy(error) ? new StateFolderBusy(stateDir, runningService(stateDir), error) : error
  }
}

const isBusy = (error: unknown): boolean =>
  error instanceof Error && 'errcode' in error && error.errcode === BUSY

/** Locks a file, waiting until it is free. Undefined if it stays locked. */
export async function lockFileWhenFree(path: string, withinMs: number): Promise<(() => void) | undefined> {
  const giveUpAt = performance.now() + withinMs
  for (;;) {
    try {
      return lockFile(path)
    } catch (error) {
      if (!isBusy(error)) throw error
    }
    if (performance.now() > giveUpAt) return undefined
    await delay(LOOK_AGAIN_MS)
  }
}

/** Returns the function that releases the lock. Throws SQLITE_BUSY if another process holds it. */
function lockFile(path: string): () => void {
  // SQLite would create the file readable by all users; its journal inherits the file's permissions.
  closeSync(openSync(path, 'a', 0o600))
  const file = new DatabaseSync(path, { timeout: 0 })
  try {
    file.exec('PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE')
  } catch (error) {
    file.close()
    throw error
  }
  return () => file.close()
}

/** Another process has the state folder. */
class StateFolderBusy extends SandboxError {
  /** The other service serves requests. Otherwise it starts or stops. */
  readonly isServing: boolean

  constructor(stateDir: string, service: RunningService | undefined, cause: unknown) {
    super('unavailable', busyWords(stateDir, service), { cause })
    this.isServing = service !== undefined
  }
}

const LOOK_AGAIN_MS = 100

type Waiting = { readonly withinMs: number; readonly onWait: () => void }

/**
 * Locks the state folder like `lockStateFolder`, but waits for a service that stops, such as the service of a command that has just
 * ended. A service that serves requests is not waited for.
 */
export async function lockStateFolderWhenFree(
  stateDir: string,
  { withinMs, onWait }: Waiting,
): Promise<() => void> {
  const giveUpAt = performance.now() + withinMs
  const attempt = () => {
    try {
      return lockStateFolder(stateDir)
    } catch (error) {
      const isWorthWaiting = error instanceof StateFolderBusy && !error.isServing
      if (!isWorthWaiting || performance.now() > giveUpAt) throw error
      return undefined
    }
  }
  let unlock = attempt()
  if (!unlock) onWait()
  while (!unlock) {
    await delay(LOOK_AGAIN_MS)
    unlock = attempt()
  }
  return unlock
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
