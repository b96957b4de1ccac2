import * as z from 'zod'
import { SETTINGS_FILE } from './policy.ts'

/** The commit that a run on a repository began with. */
export const CommitId = z.string().regex(/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/)

/** Of the names of refs that git allows, those that every program reads in the same way. */
export const GIT_REF =
  /^(?!.*(?:\.\.|\/\/|@\{|\.lock(?:\/|$)|\/\.|\.$|\/$))[A-Za-z0-9_][A-Za-z0-9._/+@#=-]{0,199}$/

/** A repository that the run clones inside its sandbox, through the egress proxy. */
export const GitWorkspace = z.strictObject({
  kind: z.literal('git'),
  /** `https://HOST/PATH`, without user, password, query and fragment. An entry of the egress list must allow it. */
  url: z.string().min(1).max(2048),
  /** A branch, a tag, or a full commit id. @default the branch that HEAD of the repository names */
  ref: z.string().min(1).max(255).optional(),
  /** How many commits of history to fetch. @default all */
  depth: z.int().min(1).max(1_000_000).optional(),
  /**
   * Text of the settings file for this run. Without it, the defaults apply. A settings file in the repository is
   * ignored. Responses omit this field.
   */
  settings: z.string().max(SETTINGS_FILE.maxBytes).optional(),
})
export type GitWorkspace = z.infer<typeof GitWorkspace>

export const CLONE_LIMITS = {
  timeoutMs: 600_000,
  /** Files of the checked out commit and their bytes, and the bytes of one pack of its history. As for an upload. */
  maxFiles: 200_000,
  maxBytes: 1_073_741_824,
  /** Links of a repository are judged one by one. */
  maxLinks: 20_000,
  maxMessage: 2_000,
} as const

/** Body of AgentHost's `POST /workspace/clone`. */
export const CloneRequest = z.strictObject({
  url: z.string().min(1).max(2048),
  ref: z.string().min(1).max(255).optional(),
  depth: z.int().min(1).optional(),
  /** The commit that an earlier clone for this run checked out. */
  commit: CommitId.optional(),
})
export type CloneRequest = z.infer<typeof CloneRequest>

const Count = z.int().nonnegative()

export const ClonedRepository = z.strictObject({
  commit: CommitId,
  /** The branch that is checked out. Absent for a tag and a commit. */
  branch: z.string().max(255).optional(),
  files: Count,
  bytes: Count,
  /** Submodules of the commit. Their folders are empty. */
  submodules: Count,
})
export type ClonedRepository = z.infer<typeof ClonedRepository>

/** One line of the response. The last line is `cloned` or `failed`. */
export const CloneLine = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('progress'),
    /** What git does, in its words, such as `Receiving objects`. */
    step: z.string().max(64),
    percent: z.int().min(0).max(100).optional(),
  }),
  z.strictObject({ type: z.literal('cloned'), repository: ClonedRepository }),
  z.strictObject({
    type: z.literal('failed'),
    reason: z.enum(['git', 'no-ref', 'too-large', 'link', 'timeout', 'no-git']),
    message: z.string().max(CLONE_LIMITS.maxMessage),
  }),
])
export type CloneLine = z.infer<typeof CloneLine>

export const CHANGES_LIMITS = {
  timeoutMs: 120_000,
  maxPatchBytes: 16_777_216,
  maxBundleBytes: 67_108_864,
} as const

/** Body of AgentHost's `POST /workspace/changes`. */
export const ChangesRequest = z.strictObject({
  /** The changes are those since this commit. */
  base: CommitId,
  /** The ref of the bundle. */
  ref: z.string().regex(/^refs\/agentweaver\/(?:run|sbx)_[0-9a-f]{32}$/),
})
export type ChangesRequest = z.infer<typeof ChangesRequest>
