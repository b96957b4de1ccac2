/** One line of a hunk. `noNewline` means that the file ends after this line without a line feed. */
export interface HunkLine {
  readonly kind: 'context' | 'remove' | 'add'
  /** Without its terminator. */
  readonly text: string
  readonly noNewline: boolean
}

export interface Hunk {
  /** Line before which the hunk's old lines begin, from 1; absent in the `*** Begin Patch` form. */
  readonly oldStart: number | undefined
  /** Lines before the hunk, outermost first (`@@ class Name`). */
  readonly anchors: readonly string[]
  /** The old lines are the file's last. */
  readonly atEnd: boolean
  readonly lines: readonly HunkLine[]
}

/** The change to one file. Paths are spelled as in the patch, with `/`. */
export type FileChange =
  | { readonly kind: 'add'; readonly path: string; readonly content: string; readonly mode?: number }
  | { readonly kind: 'delete'; readonly path: string; readonly hunks: readonly Hunk[] }
  | {
      readonly kind: 'update'
      readonly path: string
      /** The new name, if the patch moves the file. */
      readonly movedTo?: string
      readonly hunks: readonly Hunk[]
      readonly mode?: number
    }

export type PatchResult =
  | { readonly ok: true; readonly changes: readonly FileChange[] }
  | { readonly ok: false; readonly message: string }

/** A syntax error in a patch. Internal to this folder: `parsePatch` returns it as an outcome. */
export class PatchSyntaxError extends Error {
  constructor(line: number, message: string) {
    super(`line ${line}: ${message}`)
    this.name = 'PatchSyntaxError'
  }
}
