import type { EgressAccess } from '../../../contracts/egress-control.ts'
import type { HeldEntries } from '../../../contracts/events.ts'
import type { WorkspaceUsage } from '../../../contracts/exec.ts'
import type { FileError } from '../../../contracts/files.ts'
import type { RunnerRole, RunnerWarning } from '../../../contracts/runner.ts'
import type { Toolbox } from '../../../contracts/toolbox.ts'
import type { WorkspaceLayout } from '../../../contracts/workspace-layout.ts'

/** A connection to a runner. When the runner is lost, every open call settles. */
export interface RunnerLink extends Toolbox {
  readonly role: RunnerRole
  readonly pathEngine: 'openat2' | 'walk'
  /** Guarantees that the runner cannot give on this machine. */
  readonly warnings: readonly RunnerWarning[]
  /** Opens the workspace, once. Throws `workspace_invalid` with the runner's reason. */
  open(root: string, folder?: UserFolder): Promise<void>
  /** Unpacks a tar stream into the workspace. Throws `sandbox_lost` or the source's own error. */
  tarIn(source: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<ArchiveOutcome>
  /** Packs the workspace as a tar stream. Throws if it cannot be packed completely. */
  tarOut(signal?: AbortSignal): AsyncGenerator<Uint8Array>
  /** Lists the workspace as JSON Lines of `ManifestEntry`. */
  manifest(signal?: AbortSignal): AsyncGenerator<Uint8Array>
  /** Reads contents of files in the last manifest, one after the other. */
  pack(contents: readonly string[], signal?: AbortSignal): AsyncGenerator<Uint8Array>
  /** Gives commands their access to the egress proxy. Later commands have it. */
  giveEgress(access: EgressAccess): Promise<void>
  /** Calls back when what commands have written reaches another level of a limit. There is one listener. */
  onUsage(listener: (usage: WorkspaceUsage) => void): void
  /** Stops all commands, or lets them continue. Resolves when that is done. */
  freeze(isFrozen: boolean): Promise<void>
  /** Resolves with the reason when the connection has ended. */
  readonly closed: Promise<string>
  close(): Promise<void>
}

/** A workspace that is a folder of the user's machine. */
export interface UserFolder {
  readonly layout: WorkspaceLayout
  /** Called with git directories that commands created and the runner renamed. */
  readonly onHeld: (held: HeldEntries) => void
}

/** `error` says why the archive was not unpacked completely. */
export interface ArchiveOutcome {
  readonly entries: number
  readonly bytes: number
  readonly error?: FileError
}
