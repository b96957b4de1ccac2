import type { BackendName } from '../../contracts/backends.ts'
import type { ExecRequest, ExecResult, Isolation } from '../../contracts/exec.ts'
import type { HostRoot } from '../../contracts/paths.ts'
import type { ExecIo } from '../../contracts/toolbox.ts'
import type { WorkspaceLayout } from '../../contracts/workspace-layout.ts'
import type { Log } from '../kit/log.ts'

/** What a backend mounts beside the workspace and over names in it; as the wire has it, but with any target. */
export type Layout = Readonly<Pick<WorkspaceLayout, 'mounts' | 'readOnly' | 'environment'>>

/** What every backend is made with. */
export interface ExecutorOptions {
  /** Absolute, real path of the workspace; the command sees it at `/workspace` where the backend mounts. */
  readonly workspace: string
  /** Folders outside the system's that commands may read: toolchains under a home folder. */
  readonly toolRoots: readonly string[]
  /**
   * The folders of the operator's ceiling: a request's `readOnlyRoots` must lie in them.
   * @default none
   */
  readonly hostRoots?: readonly HostRoot[]
  /** @default nothing is mounted over the workspace */
  readonly layout?: Layout | undefined
  readonly log: Log
}

/** What a command may do beyond the ordinary. */
export interface CommandRights {
  /**
   * Set the set-group-ID bit, as folders that a team shares have it. Regular files can get it too.
   * @default false
   */
  readonly permitsSetGroupId?: boolean
}

/** Runs commands in one kind of isolation. Never throws for what a command did. */
export interface Executor {
  readonly isolation: Isolation
  /**
   * Whether commands are under the system call filter. Without it a command can leave a program on the host that runs as the
   * user of the service: nothing else refuses set-user-ID bits.
   */
  readonly hasSyscallFilter: boolean
  run(request: ExecRequest, io: ExecIo, rights?: CommandRights): Promise<ExecResult>
  /** Kills what still runs and removes what the backend made. */
  close(): Promise<void>
}

/** What a rung found out about itself: a proof by a real run, or what is missing and the command that fixes it. */
export type Detection =
  | { readonly ok: true; readonly isolation: Isolation; readonly warnings: readonly BackendWarning[] }
  | { readonly ok: false; readonly reason: string; readonly remedy?: string }

export interface BackendWarning {
  readonly category: 'network-unrestricted' | 'no-isolation' | 'weaker-limits'
  readonly message: string
}

/** One rung of the ladder. */
export interface Backend {
  readonly name: BackendName
  detect(options: { toolRoots: readonly string[]; signal?: AbortSignal }): Promise<Detection>
  create(options: ExecutorOptions): Promise<Executor>
}
