import { randomBytes } from 'node:crypto'
import { createConnection } from 'node:net'
import { text } from 'node:stream/consumers'
import pg from 'pg'
import { inject } from 'vitest'
import type { PostgresOffer } from './postgres.setup.ts'

/** Asks for the PostgreSQL of this test run; the first question starts it. */
export async function requestPostgres(): Promise<PostgresOffer> {
  const socket = createConnection({ host: '127.0.0.1', port: inject('postgresBroker') })
  return JSON.parse(await text(socket)) as PostgresOffer
}

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
