import * as z from 'zod'
import { PolicyScope, SandboxSettings, SandboxSettingsPatch } from './policy.ts'

/** Maximum length of the file, before and after the change, in characters. A larger one would keep the service busy too long. */
export const MAX_PROPOSED_FILE = 16_384

/** The repository whose policy the proposed settings must not exceed. Without one, the policy of all runs counts. */
export const ProposalScope = z.strictObject({
  repository: PolicyScope.shape.repository,
})
export type ProposalScope = z.infer<typeof ProposalScope>

/** Settings to write into the settings file of a repository. */
export const ProposePolicy = z.strictObject({
  settings: SandboxSettingsPatch,
  /** `true`: the keys that `settings` does not name are removed from the file. */
  replace: z.boolean().default(false),
  /**
   * The present text of the file, `null` if the file does not exist. Without a value, the text that came with your last run on the
   * repository. At most 16,384 characters.
   */
  file: z
    .string()
    .max(MAX_PROPOSED_FILE, `must be a settings file of at most ${MAX_PROPOSED_FILE} characters`)
    .nullable()
    .optional(),
})
export type ProposePolicy = z.infer<typeof ProposePolicy>
export type ProposePolicyInput = z.input<typeof ProposePolicy>

/** A changed settings file. Nothing is stored: a person applies the diff in the repository. */
export const PolicyProposal = z.object({
  path: z.string(),
  /** The file that was changed: of the request, of a run, or none. */
  base: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('request') }),
    z.object({ kind: z.literal('run'), runId: z.string() }),
    z.object({ kind: z.literal('none') }),
  ]),
  /** The whole file after the change. */
  text: z.string(),
  /** The change in the format of `git diff`, relative to the top of the repository. Empty if the file has the settings already. */
  diff: z.string(),
  /**
   * Effective settings of a run that you start with this file: tightened by the policies of all runs, of you as the owner and of
   * `repository`.
   */
  settings: SandboxSettings,
})
export type PolicyProposal = z.infer<typeof PolicyProposal>
