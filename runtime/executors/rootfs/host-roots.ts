import { realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { HostRoot } from '../../../contracts/paths.ts'
import { errnoOf, messageOf } from '../../kit/errors.ts'
import { type HeldPath, holdPath, normalPath } from './host-paths.ts'
import { bindReadOnly, isWithin, type Mount } from './mounts.ts'
import { placeProblem } from './system-mounts.ts'

/**
 * Where the folders of the operator's ceiling lead now. The service calls this once, when it reads the ceiling. A folder
 * that does not exist is kept by its spelling: it can be used once it is there, if no link leads to it.
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
 * The mounts of the folders that a request names. Each is opened first, and what was opened must be the folder that its
 * spelling means below a root of the ceiling: the operator may spell a root through links, but no link is followed
 * below it. The mount is made by path, because a bind of a descriptor is refused; its `identity` is compared with what was
 * mounted before the command starts.
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
  /** Where commands see it; normalised. */
  readonly path: string
  readonly held: HeldPath
}

/** Opens all, or returns what is wrong with the first that may not be shown. */
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
 * A folder in one that is shown needs no mount of its own. A mount point in there would be looked up by path among files
 * that other processes may change, so a folder that is not the same one there is refused.
 */
function nestedProblem(opened: readonly Opened[]): string | undefined {
  for (const one of opened) {
    const outer = outerOf(one, opened)
    if (outer && join(outer.held.real, relative(outer.path, one.path)) !== one.held.real)
      return refusal(one.path, `lies in ${outer.path}, where a link leads to it`)
  }
  return undefined
}
