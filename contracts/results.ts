import * as z from 'zod'

/** A file of the user's folder that a run changed. */
export const ChangedFile = z.object({
  path: z.string(),
  /** The former path of a renamed file. */
  from: z.string().optional(),
  status: z.enum(['added', 'modified', 'deleted', 'renamed', 'type changed']),
  /** Absent where git takes the content for no text, or where the content was too large to be kept. */
  additions: z.int().nonnegative().optional(),
  deletions: z.int().nonnegative().optional(),
})
export type ChangedFile = z.infer<typeof ChangedFile>

/** What a run on a folder of the user left, as the service compared it with the state before the run. */
export const RunDiff = z.object({
  files: z.array(ChangedFile),
  /** How many files there are, where `files` does not have all of them. */
  fileCount: z.int().nonnegative(),
  additions: z.int().nonnegative(),
  deletions: z.int().nonnegative(),
  patch: z.object({
    bytes: z.int().nonnegative(),
    /** It ends in the middle of a change, at the limit of its size. */
    isCut: z.boolean(),
    /** Secrets in it were hidden, so that it can be read and not be applied. */
    isRedacted: z.boolean(),
  }),
  /** Changed files that git ignores, of a run in the folder itself: their content was not kept. */
  ignored: z.object({ count: z.int().nonnegative(), paths: z.array(z.string()) }).optional(),
  /** Files that the user's tools execute or obey. */
  handOff: z.array(z.object({ path: z.string(), kind: z.string() })),
  /** The run's commits; the bundle carries this one ref. It is not redacted. */
  branch: z
    .object({
      ref: z.string().regex(/^refs\/agentweaver\/(?:run|sbx)_[0-9a-f]{32}$/),
      commit: z.string().regex(/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/),
      commits: z.int().positive(),
      bytes: z.int().nonnegative(),
      sha256: z.string().regex(/^[0-9a-f]{64}$/),
      /** Branches that the run made or moved and that are not in the bundle. */
      otherBranches: z.array(z.string()),
    })
    .optional(),
  /** The folder had changes that its HEAD did not have: the branch has them only in files that the run changed too. */
  hadUncommittedChanges: z.boolean(),
  /** Why a part of it is missing. */
  problems: z.array(z.string()),
})
export type RunDiff = z.infer<typeof RunDiff>

export const PATCH_MEDIA_TYPE = 'text/x-diff'
export const BUNDLE_MEDIA_TYPE = 'application/x-git-bundle'

export const RESULTS_LIMITS = {
  /** Files that a diff names. */
  maxFiles: 10_000,
  maxIgnored: 1_000,
  /** Hand-off files that are told as events of their own; all of them are in the diff. */
  maxHandOffEvents: 50,
  maxPatchBytes: 16_777_216,
  maxBundleBytes: 268_435_456,
} as const
