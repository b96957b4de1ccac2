import * as z from 'zod'

/** Where commands see the workspace. The other place that a layout may mount something at is `/run`. */
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

/** A file or folder of the service that commands see at another place. */
const LayoutMount = z.strictObject({ source: AbsolutePath, target: Target, writable: z.boolean() })

/** A `.git`, or the `HEAD` of a folder that is a git directory itself. Names have one byte per character. */
const GitEntry = z.strictObject({
  /** The folder that it lies in; empty for the workspace. */
  folder: z.string().max(4096),
  name: z.string().min(1).max(255),
  /** Which file or folder it is: `device:inode`. */
  identity: z.string().max(64),
})
export type GitEntry = z.infer<typeof GitEntry>

/**
 * What commands and file tools see of a workspace that is a folder of this machine: a private git directory in the
 * place of the real one, and paths that they can read and not write. Every other workspace has none.
 */
export const WorkspaceLayout = z.strictObject({
  mounts: z.array(LayoutMount).max(512),
  /** Paths of the workspace that commands and file tools may read but not write. */
  readOnly: z.array(WorkspacePath).max(1024),
  /** What every command has in its environment. */
  environment: z.record(z.string().regex(/^GIT_CONFIG_[A-Z0-9_]{1,32}$/), z.string().max(4096)),
  /**
   * For a workspace that is the user's own folder: what makes git take its folders for repositories. Whatever commands
   * leave behind of that kind, and is not listed here, is renamed.
   */
  gitEntries: z.array(GitEntry).max(4096).optional(),
})
export type WorkspaceLayout = z.infer<typeof WorkspaceLayout>
