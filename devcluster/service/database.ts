import pg from 'pg'
import { API_DATABASE_ROLE } from './names.ts'
import { openOutside } from './outside-network.ts'
import { startPostgres } from './postgres-server.ts'

/** The address of the database in `environments/local.json` and in the cluster's resolver. */
const ADDRESS = '198.51.100.40'
const DATABASE = 'agentweaver'

export interface Database {
  /** Runs SQL in the service's database as its superuser. */
  query<T extends pg.QueryResultRow>(text: string): Promise<T[]>
  stop(): Promise<void>
}

/**
 * A PostgreSQL outside the cluster's nodes, at the address that the environment names. Its data is deleted when it
 * stops.
 */
export async function startDatabase(folder: string): Promise<Database> {
  const network = await openOutside(folder, {
    link: 'database',
    hostByte: 4,
    addresses: [ADDRESS],
    ranges: [`${ADDRESS}/32`],
  })
  try {
    const server = await startPostgres({
      pid: network.pid,
      address: ADDRESS,
      port: 5432,
      rule: `host ${DATABASE} ${API_DATABASE_ROLE} 0.0.0.0/0 trust`,
    })
    const stop = async () => {
      await server.stop()
      await network.stop()
    }
    try {
      await run(server.url, `CREATE ROLE "${API_DATABASE_ROLE}" LOGIN`)
      await run(server.url, `CREATE DATABASE ${DATABASE} OWNER "${API_DATABASE_ROLE}"`)
    } catch (error) {
      await server.stop()
      throw error
    }
    const url = new URL(server.url)
    url.pathname = `/${DATABASE}`
    return { query: (text) => run(url.href, text), stop }
  } catch (error) {
    await network.stop()
    throw error
  }
}

async function run<T extends pg.QueryResultRow>(connectionString: string, text: string): Promise<T[]> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    return (await client.query<T>(text)).rows
  } finally {
    await client.end()
  }
}
