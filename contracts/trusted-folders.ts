import * as z from 'zod'
import { WorkspacePath } from './api.ts'
import { SandboxSettings, SettingsOrigin } from './policy.ts'

/** Identifies a folder on the service's machine in requests about its settings. */
export const FolderQuery = z.strictObject({ path: WorkspacePath })
export type FolderQuery = z.infer<typeof FolderQuery>

const When = z.iso.datetime()
/** How the settings came into force: by the first run in the folder, or because a person trusted them. */
const TrustedBy = z.enum(['first_run', 'trust'])

/** A folder whose settings are stored. */
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

/** Compares the settings in force in a folder with its settings file. `text` is absent if there is no file. */
export const SettingsComparison = z.object({
  path: z.string(),
  /** Whether the file equals the settings in force. */
  isSame: z.boolean(),
  /** Absent before the first run in the folder. */
  inForce: z
    .object({
      text: z.string().optional(),
      /** Effective settings of a run under the deployment's policy. Absent if this release cannot parse the text. */
      settings: SandboxSettings.optional(),
      origin: TrustedBy,
      trustedAt: When,
    })
    .optional(),
  file: z.object({
    text: z.string().optional(),
    /** SHA-256 of the text in hex; null if there is no file. */
    digest: z.string().nullable(),
    /** Effective settings of a run if the file were trusted. */
    settings: SandboxSettings,
    /** Settings that the file requests but the deployment's policy does not allow. */
    notGranted: z.array(z.string()),
  }),
})
export type SettingsComparison = z.infer<typeof SettingsComparison>

/** Trusts the file with this digest. The digest ensures that the file is still the one that the person reviewed. */
export const TrustFolder = z.strictObject({
  path: WorkspacePath,
  digest: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in lower case hex')
    .nullable(),
})
export type TrustFolder = z.infer<typeof TrustFolder>
