import * as z from 'zod'
import { AZURE_KEYS } from './azure-identity-env.ts'

/** A role or database name that PostgreSQL does not need to quote differently. */
const DatabaseName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and "-", at most 63 long')
const httpsUrl = z.url({ protocol: /^https$/ })

/** An administrator's token is sent to this server, so TLS must verify the server's name. */
const AdministratorUrl = z.url({ protocol: /^postgres(?:ql)?$/ }).refine((text) => {
  const { username, password, searchParams } = new URL(text)
  return username !== '' && password === '' && searchParams.get('sslmode') === 'verify-full'
}, 'must name a role, have no password, and have sslmode=verify-full: a token is the password')

/** Environment of the program that creates the API's database role. An unknown `AGENTWEAVER_*` key stops it. */
export const DatabaseSetupEnv = z.strictObject({
  /** The maintenance database of the server, as the administrator: `postgresql://ROLE@HOST:5432/postgres?sslmode=verify-full`. */
  DATABASE_URL: AdministratorUrl,
  /** The database that the API uses. */
  AGENTWEAVER_DATABASE_NAME: DatabaseName,
  /** The role that the API logs in as. */
  AGENTWEAVER_DATABASE_ROLE: DatabaseName,
  /** Entra object id of the identity that may log in as that role. */
  AGENTWEAVER_DATABASE_ROLE_OBJECT_ID: z.guid(),
  AZURE_AUTHORITY_HOST: httpsUrl,
  AZURE_CLIENT_ID: z.guid(),
  AZURE_FEDERATED_TOKEN_FILE: z.string().startsWith('/'),
  AZURE_TENANT_ID: z.guid(),
})
export type DatabaseSetupEnv = z.infer<typeof DatabaseSetupEnv>

/** Keys without our prefix that the program reads too. */
export const DATABASE_SETUP_SHARED_KEYS = ['DATABASE_URL', ...AZURE_KEYS] as const

/** The database in which Azure keeps the functions that create roles for Entra identities. */
export const MAINTENANCE_DATABASE = 'postgres'
