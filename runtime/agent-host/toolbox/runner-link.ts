import type { HeldEntries } from '../../../contracts/events.ts'
import type { FileError } from '../../../contracts/files.ts'
import type { RunnerRole, RunnerWarning } from '../../../contracts/runner.ts'
import type { Toolbox } from '../../../contracts/toolbox.ts'
import type { WorkspaceLayout } from '../../../contracts/workspace-layout.ts'

/** A runner at the other end of a stream. Once it is lost every call settles: nothing waits for what cannot come. */
export interface RunnerLink extends Toolbox {
  readonly role: RunnerRole
  readonly pathEngine: 'openat2' | 'walk'
  /** What it said that it cannot keep. */
  readonly warnings: readonly RunnerWarning[]
  /** Binds the workspace, once. Throws `workspace_invalid` with the reason where the runner refuses it. */
  open(root: string, folder?: UserFolder): Promise<void>
  /** Unpacks a tar stream into the workspace. Throws `sandbox_lost`, or what the source throws. */
  tarIn(source: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<ArchiveOutcome>
  /** The workspace as a tar stream; throws if it could not be packed whole. */
  tarOut(signal?: AbortSignal): AsyncGenerator<Uint8Array>
  /** Settles, with the reason, when the runner is gone or was given up. */
  readonly closed: Promise<string>
  close(): Promise<void>
}

/** A workspace that is a folder of this machine. */
export interface UserFolder {
  readonly layout: WorkspaceLayout
  /** Told of git directories that commands left behind and that were renamed. */
  readonly onHeld: (held: HeldEntries) => void
}

/** What an archive came to; with `error`, why it ended before its end. */
export interface ArchiveOutcome {
  readonly entries: number
  readonly bytes: number
  readonly error?: FileError
}
