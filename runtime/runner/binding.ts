import type { WorkspaceUsage } from '../../contracts/exec.ts'
import type { FileError } from '../../contracts/files.ts'
import type { HostRoot } from '../../contracts/paths.ts'
import type { WorkspaceLayout } from '../../contracts/workspace-layout.ts'
import type { Backend, Executor } from '../executors/executor.ts'
import { messageOf } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import { toFileError } from '../workspace/file-fault.ts'
import { GitWatch } from '../workspace/git/git-watch.ts'
import { openWorkspace, type WorkspaceEngine } from '../workspace/open-workspace.ts'
import type { ManifestTaker } from '../workspace/snapshot/manifest-taker.ts'
import { SetIdGuard } from './set-id-guard.ts'

export interface BindingDeps {
  readonly backend: Backend
  readonly toolRoots: readonly string[]
  readonly hostRoots?: readonly HostRoot[]
  /** The folder of the egress proxy's socket. Without it, commands have no network access. */
  readonly egressFolder?: string | undefined
  /** Whether commands write to the file system of a host, where set-user-ID files would be a risk. */
  readonly clearsSetId: boolean
  /** Called when what commands have written reaches another level of a limit. */
  readonly onUsage?: (usage: WorkspaceUsage) => void
  readonly log: Log
  /** The only folder that can be opened. Set where the path of the workspace is fixed. */
  readonly root?: string
}

export interface Bound {
  readonly workspace: WorkspaceEngine
  readonly executor: Executor
  readonly setId: SetIdGuard | undefined
  /** Loaded on the first manifest. It remembers the digests of the files. */
  readonly manifests: () => Promise<ManifestTaker>
  /** Set if the workspace is a user's own folder. Finds git directories that commands leave in it. */
  readonly watch?: GitWatch
}

/**
 * The one workspace of a runner, by the real path that was admitted: a link created above it since then could
 * lead to another folder. Nothing is served before the workspace is open, and it is opened once.
 */
export class Binding {
  readonly #deps: BindingDeps
  #taken = false
  #bound: Bound | undefined

  constructor(deps: BindingDeps) {
    this.#deps = deps
  }

  /** The open workspace and its executor, if any. */
  get bound(): Bound | undefined {
    return this.#bound
  }

  /** Opens the workspace. Returns an error if it cannot be opened; opening can then be tried again. */
  async open(root: string, layout?: WorkspaceLayout): Promise<FileError | undefined> {
    if (this.#taken) return { ok: false, code: 'denied', message: 'a workspace is open already' }
    const only = this.#deps.root
    if (only !== undefined && root !== only)
      return { ok: false, code: 'denied', message: `the workspace of this sandbox is ${only}` }
    if (only !== undefined && layout)
      return { ok: false, code: 'denied', message: 'this sandbox cannot mount anything over its workspace' }
    this.#taken = true
    const opened = await this.#tryOpen(root, layout)
    this.#taken = 'workspace' in opened
    if (!('workspace' in opened)) return opened
    this.#bound = opened
    return undefined
  }

  async #tryOpen(root: string, layout?: WorkspaceLayout): Promise<Bound | FileError> {
    let workspace: WorkspaceEngine
    try {
      workspace = await openWorkspace(root, { guard: layout })
    } catch (error) {
      return toFileError(error, root)
    }
    if (workspace.path !== withoutSlashes(root)) {
      workspace.close()
      return { ok: false, code: 'symlink', message: `${root} is reached through a link to another folder` }
    }
    try {
      const { backend, toolRoots, hostRoots = [], egressFolder, clearsSetId, onUsage, log } = this.#deps
      const options = { workspace: workspace.path, toolRoots, hostRoots, egressFolder, layout, onUsage, log }
      const executor = await backend.create(options)
      const base = layout?.gitEntries
      return {
        workspace,
        executor,
        setId: clearsSetId ? new SetIdGuard({ workspace, executor, log }) : undefined,
        manifests: manifestsOf(workspace),
        ...(base && { watch: new GitWatch(workspace.root.fd, { base }) }),
      }
    } catch (error) {
      workspace.close()
      return { ok: false, code: 'io_error', message: `commands cannot be isolated: ${messageOf(error)}` }
    }
  }

  async close(): Promise<void> {
    const bound = this.#bound
    this.#bound = undefined
    await bound?.executor.close()
    await bound?.setId?.close()
    bound?.workspace.close()
  }
}

function manifestsOf(workspace: WorkspaceEngine): Bound['manifests'] {
  let taker: Promise<ManifestTaker> | undefined
  const load = async () => {
    const { ManifestTaker } = await import('../workspace/snapshot/manifest-taker.ts')
    return new ManifestTaker(workspace)
  }
  return () => {
    taker ??= load()
    return taker
  }
}

const withoutSlashes = (path: string): string => (path.length > 1 ? path.replace(/\/+$/, '') : path)
