import { lstat, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { bestEffort } from './best-effort.ts'
import { errnoOf } from './errors.ts'
import type { Log } from './log.ts'
import { startTimeOf } from './start-time.ts'

const OWNER_FILE = 'owner.json'
const Owner = z.object({ pid: z.int().positive(), startTime: z.string() })

/** Creates a folder of mode 0700 in `tmpdir()` and records this process as its owner, so that leftovers can be detected. */
export async function makeOwnedFolder(prefix: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), prefix))
  const owner = { pid: process.pid, startTime: startTimeOf(process.pid) ?? '' }
  await writeFile(join(directory, OWNER_FILE), JSON.stringify(owner))
  return directory
}

/** Removes this user's folders with this prefix whose owning process is dead. */
export async function sweepOwnedFolders(prefix: string, log: Log): Promise<void> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(prefix))
  for (const name of names) {
    const directory = join(tmpdir(), name)
    if (!(await isAbandoned(directory))) continue
    log.warn('removing a temporary folder whose process is gone', { directory })
    await bestEffort(log, `remove ${directory}`, () =>
      rm(directory, { recursive: true, force: true, maxRetries: 3 }),
    )
  }
}

/** Only a record of a dead process counts: a folder without a record may just be being created. */
async function isAbandoned(directory: string): Promise<boolean> {
  try {
    const { uid } = await lstat(directory)
    if (uid !== process.getuid?.()) return false
    const owner = Owner.safeParse(JSON.parse(await readFile(join(directory, OWNER_FILE), 'utf8')))
    return owner.success && startTimeOf(owner.data.pid) !== owner.data.startTime
  } catch (error) {
    if (errnoOf(error) === undefined && !(error instanceof SyntaxError)) throw error
    return false
  }
}
