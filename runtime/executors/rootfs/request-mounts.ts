import { lstat, realpath } from 'node:fs/promises'
import { join, normalize, relative } from 'node:path'
import type { ExecRequest } from '../../../contracts/exec.ts'
import { errnoOf } from '../../kit/errors.ts'
import { bindReadOnly, isWithin, type Mount, SANDBOX_PATHS } from './mounts.ts'
import { outsideProblem } from './system-mounts.ts'

type Planned =
  | { readonly ok: true; readonly mounts: Mount[] }
  | { readonly ok: false; readonly message: string }

/** What a path in the workspace is to a command; `pinned` only keeps a folder from being renamed. */
type Access = 'denied' | 'read-only' | 'pinned'

/** The mounts that one request adds to those of every command. */
export async function requestMounts(workspace: string, request: ExecRequest): Promise<Planned> {
  const roots: Mount[] = []
  for (const root of request.readOnlyRoots) {
    const problem = outsideProblem(root, workspace)
    if (problem) return { ok: false, message: `read-only folder ${root}: ${problem}` }
    const real = await realpath(root)
    if (isWithin(real, workspace))
      return { ok: false, message: `read-only folder ${root}: lies in the workspace` }
    roots.push(bindReadOnly(real, normalize(root).replace(/(?<=.)\/$/, '')))
  }
  const inside = await workspaceMounts(workspace, request)
  return inside.ok ? { ok: true, mounts: [...roots, ...inside.mounts] } : inside
}

async function workspaceMounts(workspace: string, request: ExecRequest): Promise<Planned> {
  const accesses = new Map<string, Access>()
  // Denied comes last: where both lists name a path, it may not be seen.
  const wishes = [
    ...request.readOnly.map((path) => [path, 'read-only'] as const),
    ...request.denied.map((path) => [path, 'denied'] as const),
  ]
  for (const [path, access] of wishes) {
    const inside = containedPath(path)
    if (inside === undefined || inside === '.')
      return { ok: false, message: `${access} path ${path}: is not below the workspace` }
    const found = await locate(workspace, inside)
    if (found !== undefined) accesses.set(found, access)
  }
  const parents = [...accesses.keys()].flatMap(parentsOf).filter((parent) => !accesses.has(parent))
  for (const parent of parents) accesses.set(parent, 'pinned')
  return { ok: true, mounts: await toMounts(workspace, accesses) }
}

/**
 * The path below the workspace that a name leads to, free of links. A name that leads nowhere, or out of the
 * workspace, shows the command nothing that could be guarded.
 */
async function locate(workspace: string, path: string): Promise<string | undefined> {
  try {
    const found = relative(workspace, await realpath(join(workspace, path)))
    return found === '' ? undefined : containedPath(found)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

/**
 * Parents first. A command must not move a guarded path away by renaming a folder above it, so each of those is
 * mounted onto itself: the kernel refuses to rename a mount point.
 */
async function toMounts(workspace: string, accesses: ReadonlyMap<string, Access>): Promise<Mount[]> {
  const mounts: Mount[] = []
  const above = (path: string, access: Access) => parentsOf(path).some((one) => accesses.get(one) === access)
  for (const [path, access] of [...accesses].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (above(path, 'denied')) continue
    const source = join(workspace, path)
    const target = join(SANDBOX_PATHS.workspace, path)
    if (access === 'denied') {
      const isFolder = (await lstat(source)).isDirectory()
      mounts.push({ kind: isFolder ? 'hidden-folder' : 'hidden-file', target })
    } else {
      const writable = access === 'pinned' && !above(path, 'read-only')
      mounts.push({ kind: 'bind', source, target, writable })
    }
  }
  return mounts
}

function parentsOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'))
}

/** A normalised relative path, or undefined when its spelling leaves the workspace. */
export function containedPath(path: string): string | undefined {
  if (path === '' || path.startsWith('/') || path.includes('\0')) return undefined
  const normal = normalize(path).replace(/(?<=.)\/$/, '')
  return normal === '..' || normal.startsWith('../') ? undefined : normal
}
