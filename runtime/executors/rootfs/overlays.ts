import { lstat, realpath } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { errnoOf } from '../../kit/errors.ts'
import type { Layout } from '../executor.ts'
import { isWithin, SANDBOX_PATHS } from './mounts.ts'

/** Replaces a path of the workspace in the command's view. */
export interface Overlay {
  readonly source: string
  readonly writable: boolean
}

type Overlays =
  | { readonly ok: true; readonly found: (readonly [path: string, overlay: Overlay])[] }
  | { readonly ok: false; readonly message: string }

/**
 * Returns the overlays of a layout by path below the workspace. Commands cannot move the folders above an
 * overlay, so if the path of one is gone, the user deleted it.
 */
export async function overlaysOf(workspace: string, layout: Layout | undefined): Promise<Overlays> {
  const found: (readonly [string, Overlay])[] = []
  const mounts = layout?.mounts.filter(({ target }) => isWithin(target, SANDBOX_PATHS.workspace)) ?? []
  for (const { source, target, writable } of mounts) {
    const path = relative(SANDBOX_PATHS.workspace, target)
    const place = await placeOf(workspace, path)
    if (place === 'behind a link')
      return { ok: false, message: `${path} of the workspace was replaced by a link, or lies behind one` }
    if (place === 'there') found.push([path, { source, writable }])
  }
  return { ok: true, found }
}

/** A link would redirect the mount. */
async function placeOf(workspace: string, path: string): Promise<'there' | 'gone' | 'behind a link'> {
  const folder = join(workspace, dirname(path))
  try {
    if ((await realpath(folder)) !== folder) return 'behind a link'
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return 'gone'
    throw error
  }
  const stats = await lstat(join(workspace, path)).catch(() => undefined)
  return stats?.isSymbolicLink() ? 'behind a link' : 'there'
}
