import * as z from 'zod'

/** A process's Azure workload identity, under the names that the Azure SDKs use. All are set, or none. */
export const AZURE_KEYS = [
  'AZURE_AUTHORITY_HOST',
  'AZURE_CLIENT_ID',
  'AZURE_FEDERATED_TOKEN_FILE',
  'AZURE_TENANT_ID',
] as const

export const AZURE_IDENTITY_ENV = {
  AZURE_AUTHORITY_HOST: z.string().optional(),
  AZURE_CLIENT_ID: z.string().optional(),
  AZURE_FEDERATED_TOKEN_FILE: z.string().optional(),
  AZURE_TENANT_ID: z.string().optional(),
}
export type AzureIdentityEnv = { readonly [K in (typeof AZURE_KEYS)[number]]?: string | undefined }

const HttpsUrl = z.url({ protocol: /^https$/ })

/** Whether the variables name an identity, and a login host with TLS. */
export const hasAzureIdentity = (env: AzureIdentityEnv): boolean =>
  AZURE_KEYS.every((key) => env[key] !== undefined) && HttpsUrl.safeParse(env.AZURE_AUTHORITY_HOST).success
