import { lstat, realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { ExecRequest } from '../../../contracts/exec.ts'
import type { HostRoot } from '../../../contracts/paths.ts'
import { errnoOf } from '../../kit/errors.ts'
import type { Layout } from '../executor.ts'
import { normalPath, pathIdentity } from './host-paths.ts'
import { hostMounts } from './host-roots.ts'
import { type Mount, SANDBOX_PATHS } from './mounts.ts'
import { type Overlay, overlaysOf } from './overlays.ts'

type Refused = { readonly ok: false; readonly message: string }
type Planned = { readonly ok: true; readonly mounts: Mount[] } | Refused

export type RequestMounts =
  | {
      readonly ok: true
      readonly mounts: readonly Mount[]
      /** Releases the files that are held open until the sandbox was verified. */
      readonly release: () => void
    }
  | Refused

/** The context of a request's mounts. */
export interface MountPlace {
  readonly workspace: string
  /** The operator's ceiling for `readOnlyRoots`. Without it, a request cannot have any. */
  readonly hostRoots?: readonly HostRoot[] | undefined
  /** Mounted over the workspace in every command. */
  readonly layout?: Layout | undefined
}

/** How a command can access a path in the workspace. `pinned` only prevents renaming a folder. */
type Access = 'denied' | 'read-only' | 'pinned' | Overlay

/** Returns the mounts of a request, in addition to the mounts of every command. */
export async function requestMounts(
  { workspace, hostRoots = [], layout }: MountPlace,
  request: ExecRequest,
): Promise<RequestMounts> {
  const overlays = await overlaysOf(workspace, layout)
  if (!overlays.ok) return overlays
  const readOnly = [...(layout?.readOnly ?? []), ...request.readOnly]
  const accesses = new Map<string, Access>(overlays.found)
  const inside = await workspaceMounts(workspace, { ...request, readOnly }, accesses)
  if (!inside.ok) return inside
  const outside = hostMounts(request.readOnlyRoots, { hostRoots, workspace })
  if (!outside.ok) return outside
  const release = () => {
    for (const held of outside.held) held.release()
  }
  return { ok: true, mounts: [...outside.mounts, ...inside.mounts], release }
}

async function workspaceMounts(
  workspace: string,
  request: Pick<ExecRequest, 'readOnly' | 'denied'>,
  accesses: Map<string, Access>,
): Promise<Planned> {
  // Denied paths come last: if both lists name a path, it is denied.
  const wishes = [
    ...request.readOnly.map((path) => [path, 'read-only'] as const),
    ...request.denied.map((path) => [path, 'denied'] as const),
  ]
  for (const [path, access] of wishes) {
    const inside = containedPath(path)
    if (inside === undefined || (inside === '.' && access === 'denied'))
      return { ok: false, message: `${access} path ${path}: is not below the workspace` }
    const found = inside === '.' ? inside : await locate(workspace, inside)
    if (found !== undefined) accesses.set(found, restricted(accesses.get(found), access))
  }
  const parents = [...accesses.keys()].flatMap(parentsOf).filter((parent) => !accesses.has(parent))
  for (const parent of parents) accesses.set(parent, 'pinned')
  return { ok: true, mounts: await toMounts(workspace, accesses) }
}

/** A read-only request keeps an existing overlay and makes it read-only. */
const restricted = (before: Access | undefined, access: 'denied' | 'read-only'): Access =>
  access === 'read-only' && typeof before === 'object' ? { ...before, writable: false } : access

/**
 * Resolves a path below the workspace. Undefined if it does not exist or leads out of the workspace: the
 * command then sees nothing to protect.
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
 * Sorts mounts so that parents come first. A command could move a guarded path by renaming a folder above it,
 * so every such folder is bind-mounted onto itself: the kernel refuses to rename a mount point.
 */
async function toMounts(workspace: string, accesses: ReadonlyMap<string, Access>): Promise<Mount[]> {
  const mounts: Mount[] = []
  const above = (path: string, access: Access) =>
    (path !== '.' && accesses.get('.') === access) ||
    parentsOf(path).some((one) => accesses.get(one) === access)
  for (const [path, access] of [...accesses].sort(([a], [b]) =>
    a === '.' || (b !== '.' && a < b) ? -1 : 1,
  )) {
    if (above(path, 'denied')) continue
    mounts.push(await toMount(workspace, path, { access, isBelowReadOnly: above(path, 'read-only') }))
  }
  return mounts
}

async function toMount(
  workspace: string,
  path: string,
  { access, isBelowReadOnly }: { access: Access; isBelowReadOnly: boolean },
): Promise<Mount> {
  const here = join(workspace, path)
  const target = join(SANDBOX_PATHS.workspace, path)
  if (access === 'denied') {
    const isFolder = (await lstat(here)).isDirectory()
    return { kind: isFolder ? 'hidden-folder' : 'hidden-file', target }
  }
  const { source, writable } =
    typeof access === 'object' ? access : { source: here, writable: access === 'pinned' }
  const identity = pathIdentity(source)
  return { kind: 'bind', source, target, writable: writable && !isBelowReadOnly, identity }
}

function parentsOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'))
}

/** Returns whether a request makes the whole workspace read-only. */
export const isWorkspaceReadOnly = ({ readOnly }: Pick<ExecRequest, 'readOnly'>): boolean =>
  readOnly.some((path) => containedPath(path) === '.')

/** Returns the normalised relative path, or undefined if it leaves the workspace. */
export function containedPath(path: string): string | undefined {
  if (path === '' || path.startsWith('/') || path.includes('\0')) return undefined
  const normal = normalPath(path)
  return normal === '..' || normal.startsWith('../') ? undefined : normal
}
