import { messageOf } from '../../kit/errors.ts'
import { folderIdentity } from '../rootfs/folder-identity.ts'
import { SANDBOX_PATHS } from '../rootfs/mounts.ts'
import { tellsChildren } from './process-tree.ts'

export const OTHER_FOLDER = 'the workspace is not the folder that it was'

/**
 * Who proves that the folder in the sandbox is the one that the executor was made for: it is mounted by its name, and
 * somebody may have put a link in its place. The supervisor looks from outside, which costs no process; where the
 * kernel does not tell it whom to look at, the witness looks from inside.
 */
export interface WorkspaceProof {
  /** The fourth argument of the witness. */
  readonly forWitness: string
  readonly forSupervisor: string | undefined
}

export async function workspaceProof(workspace: string, canLook = tellsChildren()): Promise<WorkspaceProof> {
  const identity = await folderIdentity(workspace)
  return canLook
    ? { forWitness: '', forSupervisor: identity }
    : { forWitness: identity, forSupervisor: undefined }
}

/**
 * What speaks against starting a command in a sandbox whose first process is `leader`. What cannot be seen is not
 * proven.
 */
export async function workspaceProblem(
  leader: number | undefined,
  identity: string,
): Promise<string | undefined> {
  try {
    const mounted = await folderIdentity(`/proc/${leader}/root${SANDBOX_PATHS.workspace}`)
    return mounted === identity ? undefined : OTHER_FOLDER
  } catch (error) {
    return `the workspace cannot be seen in the sandbox: ${messageOf(error)}`
  }
}
