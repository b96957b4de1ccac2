import * as z from 'zod'
import { WorkspacePath } from './api.ts'
import { SandboxSettings, SettingsOrigin } from './policy.ts'

/** Query and body of requests about the settings of one folder of the service's machine. */
export const FolderQuery = z.strictObject({ path: WorkspacePath })
export type FolderQuery = z.infer<typeof FolderQuery>

const When = z.iso.datetime()
/** How the settings came into force: by the first run in the folder, or because a person trusted them. */
const TrustedBy = z.enum(['first_run', 'trust'])

/** A folder whose settings the service keeps. */
export const TrustedFolder = z.object({
  /** The folder's real path. */
  path: z.string(),
  settings: SettingsOrigin,
  origin: TrustedBy,
  trustedAt: When,
})
export type TrustedFolder = z.infer<typeof TrustedFolder>
export const TrustedFolderPage = z.object({ items: z.array(TrustedFolder), next: z.string().optional() })
export type TrustedFolderPage = z.infer<typeof TrustedFolderPage>

/** The settings in force in a folder beside its settings file. `text` is absent where there is no file. */
export const SettingsComparison = z.object({
  path: z.string(),
  /** Whether the file says what is in force. */
  isSame: z.boolean(),
  /** Absent before the first run in the folder. */
  inForce: z
    .object({
      text: z.string().optional(),
      /** What a run gets, under the deployment's policy; absent for a text that this release does not take. */
      settings: SandboxSettings.optional(),
      origin: TrustedBy,
      trustedAt: When,
    })
    .optional(),
  file: z.object({
    text: z.string().optional(),
    /** SHA-256 of the text in hex; null where there is no file. */
    digest: z.string().nullable(),
    /** What a run would get. */
    settings: SandboxSettings,
    /** What the file asks for beyond the deployment's policy, and so does not get. */
    notGranted: z.array(z.string()),
  }),
})
export type SettingsComparison = z.infer<typeof SettingsComparison>

/** Puts the file in force that has this digest, so that what a person saw is what they trust. */
export const TrustFolder = z.strictObject({
  path: WorkspacePath,
  digest: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in lower case hex')
    .nullable(),
})
export type TrustFolder = z.infer<typeof TrustFolder>
