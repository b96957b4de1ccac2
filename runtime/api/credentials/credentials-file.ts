import * as z from 'zod'
import {
  CredentialFields,
  GitHubAppPlace,
  hasIdTwice,
  KIND_FITS,
  kindFits,
} from '../../../contracts/credentials.ts'
import { parseYaml } from '../../../policies/agent/yaml.ts'
import { SandboxError } from '../../kit/errors.ts'

const File = z.string().min(1).max(4096)

const GitHubApp = GitHubAppPlace.extend({
  /** PEM. */
  keyFile: File,
})
export type GitHubApp = z.infer<typeof GitHubApp>

const CredentialEntry = CredentialFields.extend({
  /** File that contains the value, and nothing else. */
  file: File.optional(),
  githubApp: GitHubApp.optional(),
})
  .refine((entry) => (entry.file === undefined) !== (entry.githubApp === undefined), {
    path: ['file'],
    message: 'name either a file or a githubApp',
  })
  .refine(kindFits, KIND_FITS)
export type CredentialEntry = z.infer<typeof CredentialEntry>

const CredentialsFile = z.strictObject({
  apiVersion: z.literal('agentweaver.io/v1'),
  kind: z.literal('Credentials'),
  credentials: z
    .array(CredentialEntry)
    .max(64)
    .refine((entries) => !hasIdTwice(entries), 'has an id twice'),
})

/** Parses the operator's list of credentials. It names files with values and contains none. */
export function parseCredentialsFile(text: string, file: string): readonly CredentialEntry[] {
  const parsed = parseYaml(text, CredentialsFile)
  if (parsed.ok) return parsed.value.credentials
  throw new SandboxError(
    'invalid_config',
    `AGENTWEAVER_CREDENTIALS_FILE ${file}, line ${parsed.line}: ${parsed.reason}`,
  )
}
