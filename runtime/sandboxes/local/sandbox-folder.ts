import { lstat, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { EGRESS_SOCKET } from '../../../contracts/egress.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { errnoOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { startTimeOf } from './process-group.ts'

/** Name prefix of the sandbox folders in `tmpdir()`. */
export const SANDBOX_FOLDER_PREFIX = 'agentweaver-sandbox-'
const OWNER_FILE = 'owner.json'
const Owner = z.object({ pid: z.int().positive(), startTime: z.string() })

export type SandboxFolder = {
  readonly directory: string
  readonly socketPath: string
  readonly workspace: string
  readonly stateDir: string
  /** Commands see this folder, and nothing else of the sandbox's folder but the workspace. */
  readonly egressFolder: string
}

/** Creates a folder of mode 0700 for one sandbox and records the owning process, so that leftovers can be detected. */
export async function makeSandboxFolder(): Promise<SandboxFolder> {
  const directory = await mkdtemp(join(tmpdir(), SANDBOX_FOLDER_PREFIX))
  const folder = {
    directory,
    socketPath: join(directory, 'host.sock'),
    workspace: join(directory, 'workspace'),
    stateDir: join(directory, 'state'),
    egressFolder: join(directory, EGRESS_SOCKET.folder),
  }
  const owner = { pid: process.pid, startTime: startTimeOf(process.pid) ?? '' }
  await Promise.all([
    writeFile(join(directory, OWNER_FILE), JSON.stringify(owner)),
    mkdir(folder.workspace),
    mkdir(folder.stateDir, { mode: 0o700 }),
    mkdir(folder.egressFolder, { mode: 0o700 }),
  ])
  return { ...folder, workspace: await realpath(folder.workspace) }
}

/** Removes a sandbox folder. Ignores any path that is not one. */
export async function removeSandboxFolder(directory: string): Promise<void> {
  if (dirname(directory) !== tmpdir() || !directory.startsWith(join(tmpdir(), SANDBOX_FOLDER_PREFIX))) return
  await rm(directory, { recursive: true, force: true, maxRetries: 3 })
}

/** Removes this user's sandbox folders whose owning process is dead. */
export async function sweepSandboxFolders(log: Log): Promise<void> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(SANDBOX_FOLDER_PREFIX))
  for (const name of names) {
    const directory = join(tmpdir(), name)
    if (!(await isAbandoned(directory))) continue
    log.warn('removing the folder of a sandbox whose service is gone', { directory })
    await bestEffort(log, `remove ${directory}`, () => removeSandboxFolder(directory))
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
