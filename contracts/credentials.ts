import * as z from 'zod'
import { CredentialId, CredentialKind } from './egress.ts'

/** Plain HTTP only to this machine. */
const ApiUrl = z
  .url()
  .refine((url) => {
    const { protocol, hostname } = new URL(url)
    return protocol === 'https:' || (protocol === 'http:' && hostname === '127.0.0.1')
  }, 'must begin with https://')
  .refine(
    (url) => /^[^@?#*]+$/.test(url) && new URL(url).port !== '0',
    'must be https://HOST, with a port and a path if needed',
  )

/** How the service creates tokens of a GitHub App. The private key is elsewhere. */
export const GitHubAppPlace = z.strictObject({
  appId: z.int().positive(),
  installationId: z.int().positive(),
  /** The only repository that the tokens can reach: `owner/name`. */
  repository: z.string().regex(/^[A-Za-z0-9-]{1,39}\/[A-Za-z0-9._-]{1,100}$/, 'must be owner/name'),
  apiUrl: ApiUrl.default('https://api.github.com'),
})

/** What the operator says about each credential, without its value. */
export const CredentialFields = z.strictObject({
  id: CredentialId,
  /** Variable with the placeholder, in the environment of commands with network access. */
  variable: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]{0,63}$/, 'must be of A-Z, 0-9 and "_"')
    .optional(),
  /**
   * The value is the client certificate with which the proxy connects: the certificate chain and the private key, in PEM.
   * @default a token for a header
   */
  kind: CredentialKind.optional(),
})

/** A client certificate is in no header, so commands need no placeholder. */
export const KIND_FITS = {
  path: ['kind'],
  message: '"client-certificate" has no "variable" and no "githubApp"',
}
export const kindFits = ({
  kind,
  ...others
}: Pick<z.infer<typeof CredentialFields>, 'kind' | 'variable'> & {
  readonly githubApp?: object | undefined
}) => kind === undefined || (others.variable ?? others.githubApp) === undefined

export const hasIdTwice = (entries: readonly { readonly id: string }[]): boolean =>
  new Set(entries.map(({ id }) => id)).size < entries.length
