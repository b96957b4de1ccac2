import * as z from 'zod'
import { CredentialId } from '../../../contracts/egress.ts'
import { parseYaml } from '../../../policies/agent/yaml.ts'
import { SandboxError } from '../../kit/errors.ts'

const File = z.string().min(1).max(4096)

/** Plain HTTP only to this machine. */
const ApiUrl = z.url().refine((url) => {
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || (protocol === 'http:' && hostname === '127.0.0.1')
}, 'must begin with https://')

const GitHubApp = z.strictObject({
  appId: z.int().positive(),
  installationId: z.int().positive(),
  /** The only repository that the tokens can reach: `owner/name`. */
  repository: z.string().regex(/^[A-Za-z0-9-]{1,39}\/[A-Za-z0-9._-]{1,100}$/, 'must be owner/name'),
  /** PEM. */
  keyFile: File,
  apiUrl: ApiUrl.default('https://api.github.com'),
})
export type GitHubApp = z.infer<typeof GitHubApp>

const CredentialEntry = z
  .strictObject({
    id: CredentialId,
    /** File that contains the value, and nothing else. */
    file: File.optional(),
    githubApp: GitHubApp.optional(),
    /** Variable with the placeholder, in the environment of commands with network access. */
    variable: z
      .string()
      .regex(/^[A-Z][A-Z0-9_]{0,63}$/, 'must be of A-Z, 0-9 and "_"')
      .optional(),
  })
  .refine((entry) => (entry.file === undefined) !== (entry.githubApp === undefined), {
    path: ['file'],
    message: 'name either a file or a githubApp',
  })
export type CredentialEntry = z.infer<typeof CredentialEntry>

const CredentialsFile = z.strictObject({
  apiVersion: z.literal('agentweaver.io/v1'),
  kind: z.literal('Credentials'),
  credentials: z
    .array(CredentialEntry)
    .max(64)
    .refine((entries) => new Set(entries.map(({ id }) => id)).size === entries.length, 'has an id twice'),
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
