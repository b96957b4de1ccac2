import { lstat, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { errnoOf, SandboxError } from '../../../kit/errors.ts'
import { SANDBOX_FOLDER_PREFIX } from '../../../sandboxes/local/sandbox-folder.ts'

const invalid = (message: string, cause?: unknown) =>
  new SandboxError('workspace_invalid', message, { cause })

/** Whether a real path is a folder or lies below it. */
export const isInside = (path: string, root: string): boolean =>
  path === root || path.startsWith(root === sep ? sep : `${root}${sep}`)

export type WorkspaceBounds = {
  /** Folders under which a run may name a workspace. */
  readonly roots: readonly string[]
  /** Folders that no workspace may hold or lie in: those with keys of the service and its user. */
  readonly forbidden: readonly string[]
  /** The real path of the folder for temporary files, where the local provider keeps the folders of its sandboxes. */
  readonly temporary: string
}

/**
 * Whether a real path would show commands what the service keeps of running sandboxes: the system call filter of later
 * commands, the sockets of AgentHost, and the files of other runs.
 */
export const showsSandboxes = (real: string, temporary: string): boolean =>
  isInside(temporary, real) || real.startsWith(join(temporary, SANDBOX_FOLDER_PREFIX))

/**
 * The real path of a workspace that a run may name: an existing folder, no link itself, under one of the
 * operator's roots once every link above it is resolved.
 */
export async function admitWorkspace(path: string, bounds: WorkspaceBounds): Promise<string> {
  const { roots, forbidden, temporary } = bounds
  if (roots.length === 0)
    throw invalid(
      `this service works in no folder of its own machine, so not in ${path}: upload the files, or begin with an empty workspace`,
    )
  const [real, entry] = await Promise.all([realpath(path), lstat(path)]).catch((error: unknown) => {
    const missing = errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR'
    throw invalid(
      missing
        ? `the folder ${path} does not exist on the machine of the service`
        : `the service cannot read the folder ${path}`,
      error,
    )
  })
  if (entry.isSymbolicLink()) throw invalid(`${path} is a symbolic link; name the folder itself`)
  if (!entry.isDirectory()) throw invalid(`${path} is not a folder`)
  if (!roots.some((root) => isInside(real, root))) {
    throw invalid(
      `${path} is outside the folders that this service may work in (AGENTWEAVER_WORKSPACE_ROOTS): ${roots.join(', ')}`,
    )
  }
  const own = forbidden.find((folder) => isInside(folder, real) || isInside(real, folder))
  if (own !== undefined) {
    throw invalid(
      `${path} holds or lies in ${own}, a folder for keys of the service and its user; name another folder`,
    )
  }
  if (showsSandboxes(real, temporary)) {
    throw invalid(
      `${path} holds or lies in a folder of running sandboxes, which are in ${temporary}; name another folder`,
    )
  }
  return real
}
