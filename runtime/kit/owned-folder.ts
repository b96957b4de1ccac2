import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bestEffort } from './best-effort.ts'
import { errnoOf } from './errors.ts'
import type { Log } from './log.ts'
import { startTimeOf } from './start-time.ts'

/**
 * The owner is in the name of the folder, so it is known from the moment that the folder exists. Base 36 keeps the name
 * short: a folder may contain sockets, whose paths have at most 107 bytes.
 */
const OWNER = /^([0-9a-z]+)-([0-9a-z]+)-[^-]+$/
const ownerTag = (pid: number): string =>
  [pid, Number(startTimeOf(pid) ?? 0)].map((n) => n.toString(36)).join('-')

/** Creates a folder of mode 0700 in `tmpdir()`. Its name contains this process, so that leftovers can be detected. */
export const makeOwnedFolder = (prefix: string): Promise<string> =>
  mkdtemp(join(tmpdir(), `${prefix}${ownerTag(process.pid)}-`))

/** Removes this user's folders with this prefix whose owning process is dead. */
export async function sweepOwnedFolders(prefix: string, log: Log): Promise<void> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(prefix))
  for (const name of names) {
    const directory = join(tmpdir(), name)
    if (!isOfDeadProcess(name.slice(prefix.length)) || !(await isOwn(directory))) continue
    log.warn('removing a temporary folder whose process is gone', { directory })
    await bestEffort(log, `remove ${directory}`, () =>
      rm(directory, { recursive: true, force: true, maxRetries: 3 }),
    )
  }
}

/** A name without an owner may be of anything. */
function isOfDeadProcess(rest: string): boolean {
  const [, pid, startTime] = OWNER.exec(rest) ?? []
  return pid !== undefined && ownerTag(Number.parseInt(pid, 36)) !== `${pid}-${startTime}`
}

async function isOwn(directory: string): Promise<boolean> {
  try {
    return (await lstat(directory)).uid === process.getuid?.()
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return false
  }
}
