import { readFileSync } from 'node:fs'
import { messageOf } from '../../kit/errors.ts'
import { pathIdentity } from '../rootfs/host-paths.ts'
import { parseMountInfo } from '../rootfs/mount-info.ts'
import { isWithin, type Mount, SANDBOX_PATHS } from '../rootfs/mounts.ts'

export const OTHER_FOLDER = 'the workspace was replaced by another folder'

/**
 * What the sandbox must show at a path before its command starts. A launcher mounts by path, and another
 * process may have put a link or another folder there since the path was checked.
 */
export interface ExpectedMount {
  readonly target: string
  /** Required device and inode. */
  readonly identity?: string | undefined
  /**
   * The target lies in files that commands can write, so the mount could have landed elsewhere. It must be a
   * mount point.
   */
  readonly isMountPoint: boolean
}

const isInWorkspace = (target: string) =>
  target !== SANDBOX_PATHS.workspace && isWithin(target, SANDBOX_PATHS.workspace)

/** The mounts that can be verified: those with an identity, and those below the workspace. */
export function expectedMounts(mounts: readonly Mount[]): ExpectedMount[] {
  return mounts
    .map((mount) => ({
      target: mount.target,
      identity: mount.kind === 'bind' ? mount.identity : undefined,
      isMountPoint: isInWorkspace(mount.target),
    }))
    .filter(({ identity, isMountPoint }) => identity !== undefined || isMountPoint)
}

/**
 * Returns why the command must not start in the sandbox whose first process is `leader`, or undefined. Anything
 * that cannot be read counts as a failure. Checked from outside through `/proc`, which needs no extra process.
 */
export function mountProblem(
  leader: number | undefined,
  expected: readonly ExpectedMount[],
): string | undefined {
  for (const { target, identity } of expected) {
    if (identity === undefined) continue
    try {
      if (pathIdentity(`/proc/${leader}/root${target}`) === identity) continue
    } catch (error) {
      return `${nameOf(target)} cannot be seen in the sandbox: ${messageOf(error)}`
    }
    return target === SANDBOX_PATHS.workspace ? OTHER_FOLDER : `${target} ${REPLACED}`
  }
  return misplaced(leader, expected)
}

const REPLACED = 'was replaced by another process after it was checked; run the command again'

const nameOf = (target: string) => (target === SANDBOX_PATHS.workspace ? 'the workspace' : target)

function misplaced(leader: number | undefined, expected: readonly ExpectedMount[]): string | undefined {
  const guarded = expected.filter(({ isMountPoint }) => isMountPoint)
  if (guarded.length === 0) return undefined
  try {
    const mounted = parseMountInfo(readFileSync(`/proc/${leader}/mountinfo`, 'utf8'))
    const missing = guarded.find(({ target }) => !mounted.some(({ path }) => path === target))
    return missing && `${missing.target} ${REPLACED}`
  } catch (error) {
    return `the mounts of the sandbox cannot be seen: ${messageOf(error)}`
  }
}
