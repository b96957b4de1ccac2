import * as z from 'zod'

/** A scope of OAuth 2.0 (RFC 6749, section 3.3). */
export const Scope = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/)

/** The public client with which the command line signs people in at the issuer. */
export const OidcClient = z.object({
  issuer: z.url({ protocol: /^https?$/ }).max(150),
  clientId: z.string().min(1).max(256),
  scopes: z.array(Scope).max(20),
  /** Sent as `resource` (RFC 8707). Absent if the scopes choose the audience. */
  resource: z.url().max(512).optional(),
  /** Whether a person may sign in with a device code. */
  deviceCode: z.boolean(),
})
export type OidcClient = z.infer<typeof OidcClient>

/** How a person signs in. Without `oidc`, only with an API key. */
export const SignInMethods = z.object({ oidc: OidcClient.optional() })
export type SignInMethods = z.infer<typeof SignInMethods>
