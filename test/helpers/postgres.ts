import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { askFor } from './made-once.ts'
import type { PostgresOffer } from './postgres.setup.ts'

/** Asks for the PostgreSQL of this test run; the first question starts it. */
export const requestPostgres = (): Promise<PostgresOffer> => askFor(inject('postgresBroker'))

/** Makes an empty database on the server and returns its URL. */
export async function createDatabase(serverUrl: string): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    await client.query(`CREATE DATABASE ${name}`)
  } finally {
    await client.end()
  }
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}
