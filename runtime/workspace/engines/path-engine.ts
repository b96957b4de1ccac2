import type { WorkspacePath } from '../parse-path.ts'

/**
 * Opens names below a root. The kernel decides which file is opened, not the spelling of the path. Both engines
 * guarantee: no symbolic or magic link is followed, and the opened file lies below the root.
 */
export interface PathEngine {
  readonly name: 'openat2' | 'walk'
  /** Returns a descriptor that the caller must close. Throws an error with the errno name as `code`. */
  open(path: WorkspacePath, flags: number, mode?: number): number
}

/** An open root directory, which is not a link. Its descriptor stays open as long as the engine exists. */
export interface Root {
  readonly fd: number
  readonly path: string
}
