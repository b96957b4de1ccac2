import pg from 'pg'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { clientFor, type DatabasePlace } from './client.ts'

/** The login to a database: the database, the role, and the Entra identity that may use the role. */
export interface DatabaseLogin {
  readonly database: string
  readonly role: string
  readonly objectId: string
}

/** The change that `prepareDatabase` made to the role. */
export type RoleOutcome = 'created' | 'mapped to the identity' | 'there already'

/** An arbitrary number that none of our other programs uses: two runs of this program wait for each other. */
const LOCK = 7_211_402_093
const CONNECT_MS = 15_000
const STATEMENT_MS = 30_000
/** Longer than the server's own limits, so that a server that fell silent ends the program too. */
const ANSWER_MS = 45_000
const name = pg.escapeIdentifier
const text = pg.escapeLiteral

/**
 * Creates a login role for an Entra identity on an Azure flexible server, and lets it use one database: connect, and
 * create tables there. Every step is idempotent. It rejects a role that administers the server, because mapping an
 * identity to such a role would give that identity control of the server. `place` is the maintenance database, opened
 * as an administrator, because the Entra functions exist only there.
 */
export async function prepareDatabase(place: DatabasePlace, login: DatabaseLogin): Promise<RoleOutcome> {
  const outcome = await connected(place, (client) => ensureRole(client, login))
  const url = new URL(place.url)
  url.pathname = `/${login.database}`
  await connected({ ...place, url: url.href }, (client) => grantDatabase(client, login))
  return outcome
}

/** One connection with one transaction. Only one run of this program at a time is in it. */
async function connected<T>(place: DatabasePlace, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const Client = clientFor(place)
  const client = new Client({
    connectionString: place.url,
    connectionTimeoutMillis: CONNECT_MS,
    statement_timeout: STATEMENT_MS,
    lock_timeout: STATEMENT_MS,
    query_timeout: ANSWER_MS,
    application_name: 'agentweaver-database-setup',
  })
  // A connection that breaks between two statements rejects the next one with the same error.
  client.on('error', () => undefined)
  const { pathname, hostname } = new URL(place.url)
  const where = `the database "${pathname.slice(1)}" at ${hostname}`
  try {
    await step(`connecting to ${where}`, client.connect())
    await step(`waiting for another setup of ${where}`, begin(client))
    const result = await work(client)
    await client.query('commit')
    return result
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function begin(client: pg.Client): Promise<void> {
  await client.query('begin')
  await client.query('select pg_advisory_xact_lock($1)', [LOCK])
}

/** Adds the failed step to the error, because the server's message alone names no object. */
const step = <T>(what: string, work: Promise<T>): Promise<T> =>
  work.catch((cause) => {
    throw new SandboxError('unavailable', `${what} failed: ${messageOf(cause)}`, { cause })
  })

interface Role {
  readonly isLogin: boolean
  readonly isAdministrator: boolean
  /** How the server maps it to Entra: `aadauth,oid=…,type=service`, with `admin` for administrators. */
  readonly label: string | null
}

const ROLE = `
  select r.rolcanlogin as "isLogin",
    r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolbypassrls or r.rolreplication
      or coalesce(pg_has_role(r.oid, to_regrole('azure_pg_admin')::oid, 'MEMBER'), false) as "isAdministrator",
    (select l.label from pg_seclabels l
      where l.objtype = 'role' and l.objoid = r.oid and l.provider = 'pgaadauth') as "label"
  from pg_roles r where r.rolname = $1`

async function ensureRole(client: pg.Client, { role, objectId }: DatabaseLogin): Promise<RoleOutcome> {
  const { rows } = await step(`reading the role "${role}"`, client.query<Role>(ROLE, [role]))
  const [found] = rows
  if (!found) {
    const create = client.query(
      `select pg_catalog.pgaadauth_create_principal_with_oid($1, $2, 'service', false, false)`,
      [role, objectId],
    )
    await step(`creating the role "${role}" for the identity ${objectId}`, create)
    return 'created'
  }
  const parts = found.label?.split(',').map((part) => part.trim().toLowerCase()) ?? []
  if (found.isAdministrator || parts.includes('admin'))
    throw new SandboxError(
      'conflict',
      `the role "${role}" administers the server, so no identity of the API is mapped to it. Drop that role, or deploy the API under another name`,
    )
  const isMapped = parts.includes(`oid=${objectId.toLowerCase()}`) && parts.includes('type=service')
  if (isMapped && found.isLogin) return 'there already'
  const label = `aadauth,oid=${objectId},type=service`
  const statements = [
    `alter role ${name(role)} login`,
    `security label for "pgaadauth" on role ${name(role)} is ${text(label)}`,
  ]
  for (const statement of statements)
    await step(`mapping the role "${role}" to the identity ${objectId}`, client.query(statement))
  return 'mapped to the identity'
}

/**
 * Grants less than ownership: the API creates tables, and cannot drop or rename the database. No other role may
 * connect.
 */
async function grantDatabase(client: pg.Client, { database, role }: DatabaseLogin): Promise<void> {
  const statements = [
    `revoke connect, temporary on database ${name(database)} from public`,
    `revoke create on schema public from public`,
    `grant connect on database ${name(database)} to ${name(role)}`,
    `grant usage, create on schema public to ${name(role)}`,
  ]
  for (const statement of statements)
    await step(`"${statement}" in the database "${database}"`, client.query(statement))
  const missing = await missingRights(client, { database, role })
  if (missing.length === 0) return
  // The server only warns if the granting role has no right to grant.
  throw new SandboxError(
    'conflict',
    `the grants to the role "${role}" had no effect: ${missing.join('; ')}. The database "${database}" must be owned by azure_pg_admin, of which the administrator is a member`,
  )
}

async function missingRights(
  client: pg.Client,
  { database, role }: Pick<DatabaseLogin, 'database' | 'role'>,
): Promise<string[]> {
  const { rows } = await client.query<Record<'connect' | 'create' | 'isOpen', boolean>>(
    `select has_database_privilege($1, $2, 'connect') as "connect",
       has_schema_privilege($1, 'public', 'create') as "create",
       exists (select from pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
         where d.datname = $2 and a.grantee = 0 and a.privilege_type = 'CONNECT') as "isOpen"`,
    [role, database],
  )
  const [has] = rows
  return [
    ...(has?.connect ? [] : ['it may not connect']),
    ...(has?.create ? [] : ['it may not create tables']),
    ...(has?.isOpen === false ? [] : ['every role may connect']),
  ]
}
