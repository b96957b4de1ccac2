import * as z from 'zod'

/** One side of a changed file. The content of a link is its target. */
export const FileVersion = z.object({
  mode: z.enum(['file', 'executable', 'link']),
  size: z.int().nonnegative(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
})
export type FileVersion = z.infer<typeof FileVersion>

/** A file in the user's folder that the run changed. */
export const ChangedFile = z.object({
  path: z.string(),
  /** Previous path of a renamed file. */
  from: z.string().optional(),
  status: z.enum(['added', 'modified', 'deleted', 'renamed', 'type changed']),
  /** Absent for binary content, and for content that was too large to keep. */
  additions: z.int().nonnegative().optional(),
  deletions: z.int().nonnegative().optional(),
  /** For a run on an uploaded folder: the file before and after the run. */
  before: FileVersion.optional(),
  after: FileVersion.optional(),
})
export type ChangedFile = z.infer<typeof ChangedFile>

/** Changes that a run made in a user's folder, compared with the state before the run. */
export const RunDiff = z.object({
  files: z.array(ChangedFile),
  /** Number of changed files; `files` may list fewer. */
  fileCount: z.int().nonnegative(),
  additions: z.int().nonnegative(),
  deletions: z.int().nonnegative(),
  patch: z.object({
    bytes: z.int().nonnegative(),
    /** The patch was cut at its size limit and may end within a change. */
    isCut: z.boolean(),
    /** Secrets were redacted, so the patch cannot be applied. */
    isRedacted: z.boolean(),
  }),
  /** Changed files that git ignores, for a run in the folder itself. Their contents were not kept. */
  ignored: z.object({ count: z.int().nonnegative(), paths: z.array(z.string()) }).optional(),
  /** Changed files that the user's tools execute or obey. */
  handOff: z.array(z.object({ path: z.string(), kind: z.string() })),
  /** The run's commits. The bundle contains only this ref and is not redacted. */
  branch: z
    .object({
      ref: z.string().regex(/^refs\/agentweaver\/(?:run|sbx)_[0-9a-f]{32}$/),
      commit: z.string().regex(/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/),
      commits: z.int().positive(),
      bytes: z.int().nonnegative(),
      sha256: z.string().regex(/^[0-9a-f]{64}$/),
      /** Other branches that the run created or moved. They are not in the bundle. */
      otherBranches: z.array(z.string()),
    })
    .optional(),
  /** The folder had uncommitted changes. The branch contains them only in files that the run changed too. */
  hadUncommittedChanges: z.boolean(),
  /** Why a part of the result is missing. */
  problems: z.array(z.string()),
})
export type RunDiff = z.infer<typeof RunDiff>

export const PATCH_MEDIA_TYPE = 'text/x-diff'
export const BUNDLE_MEDIA_TYPE = 'application/x-git-bundle'

export const RESULTS_LIMITS = {
  /** Files listed in a diff. */
  maxFiles: 10_000,
  maxIgnored: 1_000,
  /** Hand-off files reported as single events; the diff lists all of them. */
  maxHandOffEvents: 50,
  maxPatchBytes: 16_777_216,
  maxBundleBytes: 268_435_456,
} as const
