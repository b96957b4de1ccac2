import * as z from 'zod'
import { CHANGES_LIMITS, CommitId } from './git-source.ts'

/** Name of a branch below the prefix of its run: components that git and file systems read alike. */
export const PUSH_BRANCH =
  /^(?!.*\.\.)(?!.*\.(?:lock)?(?:\/|$))[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}){0,7}$/

/** Room for the prefix `refs/heads/agentweaver/RUN/` in the longest ref that the egress proxy accepts. */
export const MAX_PUSH_BRANCH = 150

/** Body of `POST /api/runs/{id}/push`. */
export const PushResults = z.strictObject({
  /** The branch is `agentweaver/RUN/` and this name. */
  branch: z
    .string()
    .max(MAX_PUSH_BRANCH)
    .regex(PUSH_BRANCH, 'must be of letters, digits, "-", "_", "." and "/", such as fix-login'),
})
export type PushResults = z.infer<typeof PushResults>

export const PushedResults = z.object({
  runId: z.string(),
  /** URL of the repository. */
  repository: z.string(),
  branch: z.string(),
  commit: CommitId,
})
export type PushedResults = z.infer<typeof PushedResults>

export const PUSH_LIMITS = {
  /** For each of the two steps in the sandbox. */
  timeoutMs: 300_000,
  maxMessage: 2_000,
  maxBytes: CHANGES_LIMITS.maxPatchBytes,
  /** The file in the workspace with the commits of the run. */
  bundle: 'run.bundle',
} as const

const Branch = z
  .string()
  .max(255)
  .regex(/^refs\/heads\/agentweaver\/(?:run|sbx)_[0-9a-f]{32}\/[A-Za-z0-9_./-]+$/)

/**
 * Body of AgentHost's `POST /workspace/push/open`: fetches the base from the server, adds the commits of the bundle, and
 * returns what they change, as `POST /workspace/changes` does.
 */
export const OpenPush = z.strictObject({
  url: z.string().min(1).max(2048),
  base: CommitId,
  depth: z.int().min(1).optional(),
  /** The ref of the bundle, and its commit. */
  result: z.string().regex(/^refs\/agentweaver\/(?:run|sbx)_[0-9a-f]{32}$/),
  commit: CommitId,
})
export type OpenPush = z.infer<typeof OpenPush>

/** Body of AgentHost's `POST /workspace/push`: sends the commit to one branch. */
export const SendPush = z.strictObject({ commit: CommitId, ref: Branch })
export type SendPush = z.infer<typeof SendPush>

export const SentPush = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('pushed'), previous: CommitId.optional() }),
  z.strictObject({ type: z.literal('failed'), message: z.string().max(PUSH_LIMITS.maxMessage) }),
])
export type SentPush = z.infer<typeof SentPush>
