import {
  HandleEmptyInListsPlugin,
  type Kysely,
  type RawBuilder,
  replaceWithNoncontingentExpression,
  type SelectQueryBuilder,
} from 'kysely'
import type { RunEnvelope } from '../../contracts/events.ts'
import type { Tables } from './schema.ts'

/** PostgreSQL rejects `in ()`; this plugin makes it false, as it is on SQLite. */
export const PLUGINS = [new HandleEmptyInListsPlugin({ strategy: replaceWithNoncontingentExpression })]

/** The differences between the two databases. All other SQL is portable. */
export interface Engine {
  readonly kind: 'sqlite' | 'postgres'
  /** Every write uses a transaction of this instance. */
  readonly writer: Kysely<Tables>
  /** Reads outside transactions; they see the last commit and never wait for a writer. */
  readonly reader: Kysely<Tables>
  /** For migrations, which may take as long as they need. */
  readonly migrator: Kysely<Tables>
  /** Acquires and renews leases, each in one statement; never waits for other work on the store. */
  readonly leases: Kysely<Tables>
  /** Milliseconds since 1970 by the clock that all processes of this store share. */
  readonly nowMs: RawBuilder<number>
  /** Types and columns that the databases spell differently. */
  readonly ddl: { readonly bytes: 'blob' | 'bytea'; readonly position: RawBuilder<unknown> }
  /** Locks the selected rows. The query waits only for other writers of the same rows. */
  lockRows<O>(query: SelectQueryBuilder<Tables, 'runs', O>): SelectQueryBuilder<Tables, 'runs', O>
  lockRows<O>(
    query: SelectQueryBuilder<Tables, 'audit_heads', O>,
  ): SelectQueryBuilder<Tables, 'audit_heads', O>
  lockRows<O>(query: SelectQueryBuilder<Tables, 'contents', O>): SelectQueryBuilder<Tables, 'contents', O>
  /** Locks the selected rows and leaves out those that another transaction has locked. */
  lockFreeRows<O>(query: SelectQueryBuilder<Tables, 'runs', O>): SelectQueryBuilder<Tables, 'runs', O>
  /** Keeps other processes from migrating until the transaction ends. */
  lockSchema(tx: Kysely<Tables>): Promise<void>
  /** Keeps other transactions that count runs or checks of credentials, or change the queue, waiting until this one ends. */
  lockAdmission(tx: Kysely<Tables>): Promise<void>
  /** Notifies other processes, when the transaction commits, which runs have new events. */
  announce(tx: Kysely<Tables>, runIds: Iterable<string>): Promise<void>
  close(): Promise<void>
}

/** Called with a run that has new events, or without an argument if any run may have new events. */
export type OnRemoteEvents = (runId?: string) => void

/** The context of a table function: a connection or transaction, and its engine. */
export interface Scope {
  readonly db: Kysely<Tables>
  readonly engine: Engine
}

/** The scope of a transaction, which remembers the events that it gave to runs. */
export interface WriteScope extends Scope {
  readonly announced: Map<string, RunEnvelope[]>
}
