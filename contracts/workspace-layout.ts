import * as z from 'zod'

/** Mount path of the workspace in the sandbox. A layout may also mount something below `/run`. */
const SANDBOX_WORKSPACE = '/workspace'

const isPlain = (path: string) =>
  !path.includes('\0') && path.split('/').every((part) => part !== '' && part !== '.' && part !== '..')

const AbsolutePath = z
  .string()
  .max(4096)
  .refine((path) => path.startsWith('/') && isPlain(path.slice(1)), 'must be a normalised absolute path')
const WorkspacePath = z.string().max(4096).refine(isPlain, 'must be a normalised path of the workspace')
const Target = AbsolutePath.refine(
  (path) => path.startsWith(`${SANDBOX_WORKSPACE}/`) || path.startsWith('/run/'),
  'must lie in the workspace or in /run',
)

/** A file or folder of the service's machine that commands see at another path. */
const LayoutMount = z.strictObject({ source: AbsolutePath, target: Target, writable: z.boolean() })

/** A `.git` entry, or the `HEAD` of a bare git directory. Each character of a name stands for one byte. */
const GitEntry = z.strictObject({
  /** Folder of the entry; empty for the workspace root. */
  folder: z.string().max(4096),
  name: z.string().min(1).max(255),
  /** Identity of the file or folder: `device:inode`. */
  identity: z.string().max(64),
})
export type GitEntry = z.infer<typeof GitEntry>

/**
 * How commands and file tools see a workspace that is a folder of this machine: a private git directory replaces the
 * real one, and some paths are read-only. Other workspaces have no layout.
 */
export const WorkspaceLayout = z.strictObject({
  mounts: z.array(LayoutMount).max(512),
  /** Workspace paths that commands and file tools may read but not write. */
  readOnly: z.array(WorkspacePath).max(1024),
  /** Environment variables of every command. */
  environment: z.record(z.string().regex(/^GIT_CONFIG_[A-Z0-9_]{1,32}$/), z.string().max(4096)),
  /**
   * Set if the workspace is the user's own folder: the existing entries that make git treat a folder as a repository.
   * New entries of this kind that commands leave behind are renamed.
   */
  gitEntries: z.array(GitEntry).max(4096).optional(),
})
export type WorkspaceLayout = z.infer<typeof WorkspaceLayout>
