import type { Restriction } from '../../../../contracts/restrictions.ts'
import { messageOf } from '../../../kit/errors.ts'
import type { Log } from '../../../kit/log.ts'
import type { Frozen } from '../../../store/queue.ts'
import type { RestrictionRow } from '../../../store/service-rows.ts'
import type { RunRow, Store } from '../../../store/store.ts'
import { repeat } from '../repeat.ts'

/** Restrictions that another process of the deployment has set are in force here after this time. */
const LOOK_EVERY_MS = 500

type Restricted = Pick<RunRow, 'id' | 'owner'>

/** What the restrictions of a run add up to. */
export interface Effect {
  /** The last restriction of each scope that the run is in, oldest first. Some are lifted: `normal`. */
  readonly applied: readonly RestrictionRow[]
  /** File tools only read. */
  readonly isReadOnly: boolean
  readonly network: 'normal' | 'read-only' | 'no-network'
  /** Nothing new starts, and running commands are stopped. */
  readonly isFrozen: boolean
}

/** One restriction of a run that was set, changed or lifted. */
export type RestrictionChange = Pick<Restriction, 'level' | 'by' | 'reason'> & {
  readonly scope: RestrictionRow['scope']['kind']
}

export interface RestrictionsOptions {
  readonly store: Pick<Store, 'listRestrictions' | 'engine'>
  readonly log: Log
}

/**
 * The restrictions in force, in memory, so that every decision can ask without a query. The store has them: they survive a
 * restart and apply to every process of the deployment.
 */
export class Restrictions {
  readonly #options: RestrictionsOptions
  readonly #followers = new Set<() => void>()
  #rows: readonly RestrictionRow[] = []
  #reading: Promise<void> = Promise.resolve()

  constructor(options: RestrictionsOptions) {
    this.#options = options
  }

  /** Reads them for the first time, and again and again where other processes write them. */
  async start(): Promise<{ stop(): Promise<void> }> {
    await this.refresh()
    const { store, log } = this.#options
    if (store.engine !== 'postgres') return { stop: async () => undefined }
    const look = () =>
      this.refresh().catch((error: unknown) =>
        log.warn('the restrictions could not be read; those in force stay', { error: messageOf(error) }),
      )
    return repeat(look, LOOK_EVERY_MS)
  }

  /** Resolves when everything that was stored before the call is in force in this process. */
  refresh(): Promise<void> {
    const read = this.#reading.then(() => this.#read())
    // One after the other: an older answer must not replace a newer one.
    this.#reading = read.catch(() => undefined)
    return read
  }

  of(run: Restricted): Effect {
    const applied = this.#rows.filter((row) => appliesTo(row, run))
    const has = (level: RestrictionRow['level']) => applied.some((row) => row.level === level)
    return {
      applied,
      isReadOnly: has('read-only'),
      network: has('no-network') ? 'no-network' : has('read-only') ? 'read-only' : 'normal',
      isFrozen: has('frozen'),
    }
  }

  /** What may not start: everything, or these owners and runs. */
  get frozen(): Frozen {
    const scopes = this.#rows.filter(({ level }) => level === 'frozen').map(({ scope }) => scope)
    return {
      all: scopes.some(({ kind }) => kind === 'all'),
      owners: scopes.flatMap((scope) => (scope.kind === 'owner' ? [scope.owner] : [])),
      runIds: scopes.flatMap((scope) => (scope.kind === 'run' ? [scope.id] : [])),
    }
  }

  /** Calls back after each change. The return value ends that. */
  onChange(follower: () => void): () => void {
    this.#followers.add(follower)
    return () => this.#followers.delete(follower)
  }

  async #read(): Promise<void> {
    const rows = await this.#options.store.listRestrictions()
    if (JSON.stringify(rows) === JSON.stringify(this.#rows)) return
    this.#rows = rows
    for (const follower of this.#followers) follower()
  }
}

/** `owner` of a restriction on a run is that run's owner, which never changes. */
function appliesTo({ scope }: RestrictionRow, { id, owner }: Restricted): boolean {
  if (scope.kind === 'run') return scope.id === id
  return scope.kind === 'all' || scope.owner === owner
}

/** The restrictions of a run that were set, changed or lifted since `before`. */
export const changesSince = (before: readonly RestrictionRow[], { applied }: Effect): RestrictionChange[] =>
  applied
    .filter(({ scope, level, at }) => {
      const old = before.find((one) => one.scope.kind === scope.kind)
      return old ? old.at !== at || old.level !== level : level !== 'normal'
    })
    .map(({ scope, level, by, reason }) => ({ scope: scope.kind, level, by, reason }))

const WHOSE = { run: 'this run is', owner: 'the runs of this owner are', all: 'all runs are' } as const

/** Why something is refused, for a client or a model. */
export const restrictionWords = (
  { applied }: Effect,
  ...levels: readonly RestrictionRow['level'][]
): string =>
  applied
    .filter(({ level }) => levels.includes(level))
    .map(({ scope, level, by, reason }) => `${WHOSE[scope.kind]} restricted to ${level} by ${by}: ${reason}`)
    .join('; ')
