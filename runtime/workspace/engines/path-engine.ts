import type { WorkspacePath } from '../parse-path.ts'

/**
 * Opens names below one root so that the kernel, not the spelling, decides what was opened. Both engines hold:
 * no symbolic or magic link on the way or at the end is followed, and what is opened lies below the root.
 */
export interface PathEngine {
  readonly name: 'openat2' | 'walk'
  /** A descriptor that the caller closes. Throws an error with the errno's name as `code`. */
  open(path: WorkspacePath, flags: number, mode?: number): number
}

/** An open root: a directory that existed, was no link, and is held for as long as the engine lives. */
export interface Root {
  readonly fd: number
  readonly path: string
}
