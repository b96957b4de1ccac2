import { statSync } from 'node:fs'
import type { ExecutorOptions, Layout } from '../executor.ts'
import { pathIdentity } from './host-paths.ts'

/** One entry of the file system that a command sees. Targets are absolute paths in the sandbox. */
export type Mount =
  | {
      readonly kind: 'bind'
      readonly source: string
      readonly target: string
      readonly writable: boolean
      /** Device and inode that the sandbox must show at `target` before the command starts. */
      readonly identity?: string | undefined
    }
  | { readonly kind: 'tmpfs'; readonly target: string; readonly bytes: number; readonly mode: string }
  /** A folder or file that exists but cannot be opened. */
  | { readonly kind: 'hidden-folder' | 'hidden-file'; readonly target: string }

/** Fixed paths in the sandbox. */
export const SANDBOX_PATHS = { workspace: '/workspace', home: '/home/sandbox', temporary: '/tmp' } as const

/** The command's user inside the sandbox. Outside, it is the service's user. */
export const SANDBOX_USER = { name: 'sandbox', uid: 1000, gid: 1000 } as const

export const SANDBOX_HOSTNAME = 'sandbox'

/** Memory limits of the tmpfs mounts. */
const TMPFS_BYTES = { temporary: 1024 ** 3, home: 512 * 1024 ** 2, shm: 256 * 1024 ** 2 }

export const bindReadOnly = (source: string, target = source, identity?: string): Mount => ({
  kind: 'bind',
  source,
  target,
  writable: false,
  identity,
})

export const hiddenFile = (target: string): Mount => ({ kind: 'hidden-file', target })

export const bindWritable = (source: string, target: string, identity?: string): Mount => ({
  kind: 'bind',
  source,
  target,
  writable: true,
  identity,
})

/** Writable folders that are deleted with the command. */
export const PRIVATE_MOUNTS: readonly Mount[] = [
  { kind: 'tmpfs', target: SANDBOX_PATHS.temporary, bytes: TMPFS_BYTES.temporary, mode: '1777' },
  { kind: 'tmpfs', target: SANDBOX_PATHS.home, bytes: TMPFS_BYTES.home, mode: '0755' },
]

export const SHM_MOUNT: Mount = { kind: 'tmpfs', target: '/dev/shm', bytes: TMPFS_BYTES.shm, mode: '1777' }

/** Returns whether `path` is `folder` or lies in it. Both must be normalised absolute paths. */
export const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)

/** Folders of the host that commands can write. */
export const writableFolders = ({
  workspace,
  layout,
}: Pick<ExecutorOptions, 'workspace' | 'layout'>): string[] => [
  workspace,
  ...(layout?.mounts ?? []).flatMap(({ source, writable }) =>
    writable && statSync(source, { throwIfNoEntry: false })?.isDirectory() ? [source] : [],
  ),
]

/** The mounts of a layout outside the workspace. Mounts inside are planned per request. */
export const mountsBeside = (layout: Layout | undefined): Mount[] =>
  (layout?.mounts ?? [])
    .filter(({ target }) => !isWithin(target, SANDBOX_PATHS.workspace))
    .map((mount) => ({ kind: 'bind', ...mount, identity: pathIdentity(mount.source) }))
