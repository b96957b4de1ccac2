import type { Kysely } from 'kysely'
import { SandboxError } from '../kit/errors.ts'
import type { Engine } from './engine.ts'
import { MIGRATIONS, type Migration } from './migrations.ts'
import type { Tables } from './schema.ts'

/** Migrates the store to the newest version, atomically. If several processes start at once, one of them migrates. */
export async function migrate(engine: Engine, migrations: readonly Migration[] = MIGRATIONS): Promise<void> {
  const newest = Math.max(...migrations.map(({ version }) => version))
  await engine.migrator.transaction().execute(async (tx) => {
    await engine.lockSchema(tx)
    const current = await versionOf(tx)
    if (current > newest) {
      throw new SandboxError(
        'invalid_config',
        `The store has version ${current}, this program knows ${newest}: it was used by a newer release. Upgrade, or restore a backup.`,
      )
    }
    for (const migration of migrations.filter(({ version }) => version > current)) {
      await migration.up(tx, engine.ddl)
      await tx
        .insertInto('schema_migrations')
        .values({ version: migration.version, name: migration.name, applied_at: new Date().toISOString() })
        .execute()
    }
  })
}

async function versionOf(tx: Kysely<Tables>): Promise<number> {
  await tx.schema
    .createTable('schema_migrations')
    .ifNotExists()
    .addColumn('version', 'integer', (c) => c.primaryKey())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('applied_at', 'text', (c) => c.notNull())
    .execute()
  const row = await tx
    .selectFrom('schema_migrations')
    .select(({ fn }) => fn.max('version').as('version'))
    .executeTakeFirst()
  return Number(row?.version ?? 0)
}
