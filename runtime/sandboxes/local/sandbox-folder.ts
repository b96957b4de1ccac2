import { mkdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { EGRESS_SOCKET } from '../../../contracts/egress.ts'
import { makeOwnedFolder } from '../../kit/owned-folder.ts'

/** Name prefix of the sandbox folders in `tmpdir()`. */
export const SANDBOX_FOLDER_PREFIX = 'agentweaver-sandbox-'

export type SandboxFolder = {
  readonly directory: string
  readonly socketPath: string
  readonly workspace: string
  readonly stateDir: string
  /** Commands see this folder, and nothing else of the sandbox's folder but the workspace. */
  readonly egressFolder: string
}

/** Creates a folder of mode 0700 for one sandbox. */
export async function makeSandboxFolder(): Promise<SandboxFolder> {
  const directory = await makeOwnedFolder(SANDBOX_FOLDER_PREFIX)
  const folder = {
    directory,
    socketPath: join(directory, 'host.sock'),
    workspace: join(directory, 'workspace'),
    stateDir: join(directory, 'state'),
    egressFolder: join(directory, EGRESS_SOCKET.folder),
  }
  await Promise.all([
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
