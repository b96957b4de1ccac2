import pg from 'pg'
import { type PostgresNetwork, startPostgres } from '../../devcluster/service/postgres-server.ts'

export const SETUP_ROLE = 'agentweaver-dev-database-setup'
export const DATABASE = 'agentweaver'

/**
 * Azure's additions to a PostgreSQL server, as far as SQL shows them: a group of administrators that owns databases, an
 * administrator without superuser rights, and in `postgres` the function that creates a role for an identity and labels
 * it. A label provider is C code, so the function writes the label directly into the catalog table that Azure uses.
 */
const AZURE = `
  create role azure_pg_admin nologin;
  create role "${SETUP_ROLE}" login createrole createdb in role azure_pg_admin;
  create function pg_catalog.azure_label(target text, label text) returns void language plpgsql
    security definer set allow_system_table_mods = on as $$
    begin
      insert into pg_shseclabel (objoid, classoid, provider, label)
        select oid, 'pg_authid'::regclass, 'pgaadauth', label from pg_roles where rolname = target;
    end $$;
  create function pg_catalog.pgaadauth_create_principal_with_oid(
    role_name text, object_id text, object_type text, is_admin boolean, is_mfa boolean
  ) returns text language plpgsql as $$
    begin
      execute format('create role %I login', role_name);
      perform pg_catalog.azure_label(role_name,
        format('aadauth,oid=%s,type=%s%s', object_id, object_type, case when is_admin then ',admin' else '' end));
      return format('Created role for %I', role_name);
    end $$`

/** Starts a separate real PostgreSQL server with Azure's additions. `query` runs as its superuser. */
export async function startEntraPostgres(network?: PostgresNetwork) {
  const server = await startPostgres(network)
  const at = (database: string, user = 'postgres') => {
    const url = new URL(server.url)
    url.username = user
    url.pathname = `/${database}`
    return url.href
  }
  const query = async <Row extends pg.QueryResultRow>(text: string, url = at('postgres')) => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    try {
      return (await client.query<Row>(text)).rows
    } finally {
      await client.end()
    }
  }
  await query(`set allow_system_table_mods = on; ${AZURE}`)
  await query(`create database ${DATABASE} owner azure_pg_admin`)
  return { ...server, at, query }
}
