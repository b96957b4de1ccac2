import type { BackendName } from '../../contracts/backends.ts'
import type { ExecRequest, ExecResult, Isolation, WorkspaceUsage } from '../../contracts/exec.ts'
import type { HostRoot } from '../../contracts/paths.ts'
import type { ExecIo } from '../../contracts/toolbox.ts'
import type { WorkspaceLayout } from '../../contracts/workspace-layout.ts'
import type { Log } from '../kit/log.ts'

/** The mounts of a backend over and outside the workspace. Like the wire format, but with any target. */
export type Layout = Readonly<Pick<WorkspaceLayout, 'mounts' | 'readOnly' | 'environment'>>

/** Options of every backend. */
export interface ExecutorOptions {
  /** Absolute, real path of the workspace. Backends that mount show it at `/workspace`. */
  readonly workspace: string
  /** Folders outside the system that commands may read, such as toolchains in a home folder. */
  readonly toolRoots: readonly string[]
  /** The folders of the operator's ceiling. A request's `readOnlyRoots` must lie in them. @default none */
  readonly hostRoots?: readonly HostRoot[]
  /**
   * The folder of the egress proxy's socket, the only way out of a sandbox. @default commands that ask for network
   * access are refused
   */
  readonly egressFolder?: string | undefined
  /** @default nothing is mounted over the workspace */
  readonly layout?: Layout | undefined
  /** Called when what commands have written reaches another level of a limit. */
  readonly onUsage?: ((usage: WorkspaceUsage) => void) | undefined
  readonly log: Log
}

/** Extra permissions of a command. */
export interface CommandRights {
  /**
   * Allows the set-group-ID bit, which shared team folders use. Regular files can then get it too. @default
   * false
   */
  readonly permitsSetGroupId?: boolean
}

/** Runs commands in one kind of isolation. Never throws for anything that a command did. */
export interface Executor {
  readonly isolation: Isolation
  /**
   * Whether commands run under the system call filter. Only the filter rejects set-user-ID bits: without it, a
   * command can leave a program on the host that runs as the service's user.
   */
  readonly hasSyscallFilter: boolean
  run(request: ExecRequest, io: ExecIo, rights?: CommandRights): Promise<ExecResult>
  /** Kills running commands and deletes the backend's files. */
  close(): Promise<void>
}

/** The result of checking a backend: a proof by a real run, or the missing part and the command that installs it. */
export type Detection =
  | { readonly ok: true; readonly isolation: Isolation; readonly warnings: readonly BackendWarning[] }
  | { readonly ok: false; readonly reason: string; readonly remedy?: string }

export interface BackendWarning {
  readonly category: 'network-unrestricted' | 'no-isolation' | 'weaker-limits'
  readonly message: string
}

/** One backend in the ladder. */
export interface Backend {
  readonly name: BackendName
  detect(options: { toolRoots: readonly string[]; signal?: AbortSignal }): Promise<Detection>
  create(options: ExecutorOptions): Promise<Executor>
}
