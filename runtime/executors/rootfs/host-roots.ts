import { realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { HostRoot } from '../../../contracts/paths.ts'
import { errnoOf, messageOf } from '../../kit/errors.ts'
import { type HeldPath, holdPath, normalPath } from './host-paths.ts'
import { bindReadOnly, isWithin, type Mount } from './mounts.ts'
import { placeProblem } from './system-mounts.ts'

/**
 * Resolves the folders of the operator's ceiling. The service calls this once, at start. A folder that does not
 * exist keeps its spelling: it can be used once it exists, if no link leads to it.
 */
export function resolveHostRoots(paths: readonly string[]): Promise<HostRoot[]> {
  return Promise.all(
    paths.map(async (spelled) => {
      const path = normalPath(spelled)
      const real = await realpath(path).catch((error: unknown) => {
        if (errnoOf(error) === undefined) throw error
        return path
      })
      return { path, real }
    }),
  )
}

export type HostMounts =
  | { readonly ok: true; readonly mounts: readonly Mount[]; readonly held: readonly HeldPath[] }
  | { readonly ok: false; readonly message: string }

interface Ceiling {
  readonly hostRoots: readonly HostRoot[]
  readonly workspace: string
}

/**
 * Returns the mounts of the folders that a request names. Each folder is opened first, and the opened folder
 * must be the one that its spelling means below a root of the ceiling: the operator may spell a root through
 * links, but below a root no link is followed. The mount itself is made by path, because a descriptor cannot be
 * bind-mounted; its `identity` is verified before the command starts.
 */
export function hostMounts(paths: readonly string[], ceiling: Ceiling): HostMounts {
  const opened: Opened[] = []
  const message = open(paths, ceiling, opened) ?? nestedProblem(opened)
  if (message !== undefined) {
    for (const { held } of opened) held.release()
    return { ok: false, message }
  }
  const outermost = opened.filter((one) => outerOf(one, opened) === undefined)
  return {
    ok: true,
    mounts: outermost.map(({ path, held }) => bindReadOnly(held.real, path, held.identity)),
    held: opened.map(({ held }) => held),
  }
}

interface Opened {
  /** Normalised path at which commands see the folder. */
  readonly path: string
  readonly held: HeldPath
}

/** Opens all folders. Returns the problem of the first one that is not allowed. */
function open(paths: readonly string[], ceiling: Ceiling, opened: Opened[]): string | undefined {
  for (const path of new Set(paths.map(normalPath))) {
    const held = tryHold(path)
    if (typeof held === 'string') return refusal(path, held)
    opened.push({ path, held })
    const problem = folderProblem({ path, held }, ceiling)
    if (problem !== undefined) return refusal(path, problem)
  }
  return undefined
}

const refusal = (path: string, problem: string) => `read-only folder ${path}: ${problem}`

function tryHold(path: string): HeldPath | string {
  try {
    return holdPath(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return 'is not a folder'
    return messageOf(error)
  }
}

function folderProblem({ path, held }: Opened, { hostRoots, workspace }: Ceiling): string | undefined {
  if (!held.isFolder) return 'is not a folder'
  const above = hostRoots.filter((root) => isWithin(path, root.path))
  if (above.length === 0) return 'does not lie in a folder that the operator allows'
  if (!above.some((root) => join(root.real, relative(root.path, path)) === held.real))
    return 'is reached through a link. Name the folder that the link leads to, if the operator allows that one'
  const isInWorkspace = isWithin(held.real, workspace)
  return placeProblem({ path, real: held.real }, workspace) ?? (isInWorkspace ? IN_WORKSPACE : undefined)
}

const IN_WORKSPACE = 'lies in the workspace'

const outerOf = ({ path }: Opened, opened: readonly Opened[]): Opened | undefined =>
  opened.find((other) => other.path !== path && isWithin(path, other.path))

/**
 * A folder inside another requested folder needs no separate mount. A nested mount point would be looked up
 * by path among files that other processes may change, so a nested folder that is reached through a link is
 * rejected.
 */
function nestedProblem(opened: readonly Opened[]): string | undefined {
  for (const one of opened) {
    const outer = outerOf(one, opened)
    if (outer && join(outer.held.real, relative(outer.path, one.path)) !== one.held.real)
      return refusal(one.path, `lies in ${outer.path}, where a link leads to it`)
  }
  return undefined
}
