import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'

export type Query = (text: string) => Promise<Record<string, unknown>[]>

/** Reads the database of a round without the product's own code. */
export async function queryPostgres<T>(url: string, work: (query: Query) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(async (text) => (await client.query(text)).rows)
  } finally {
    await client.end()
  }
}

export async function queryEmbedded<T>(file: string, work: (query: Query) => Promise<T>): Promise<T> {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 10_000 })
  try {
    return await work(async (text) => database.prepare(text).all() as Record<string, unknown>[])
  } finally {
    database.close()
  }
}
