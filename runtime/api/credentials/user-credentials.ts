import type { EgressCredentialAnswer } from '../../../contracts/egress-control.ts'
import type { UserCredential } from '../../../contracts/user-credentials.ts'
import { bestEffort } from '../../kit/best-effort.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import type { UserCredentialRow } from '../../store/service-rows.ts'
import type { Store } from '../../store/store.ts'
import { USER_CREDENTIALS_REVISION } from '../../store/user-credential-store.ts'
import { repeat } from '../runs/repeat.ts'
import type { Seal } from './sealed-value.ts'
import { type UserVault, vaultVersionOf } from './user-vault.ts'

/** Credentials that another process has set are used and redacted here after this time. Without one, only an erasure changes them. */
const LOOK_EVERY_MS = { postgres: 500, sqlite: 5_000 } as const
/** A use is stored at most once in this time. */
const NOTE_EVERY_MS = 60_000

const OWN = 'own-'

/** Whether the id names the credential of an owner. The operator's list has no such ids. */
export const isOwnId = (id: string): boolean => id.startsWith(OWN)

/** The fingerprint in the id of an owner's credential. */
export const fingerprintIn = (id: string): string | undefined =>
  isOwnId(id) ? id.slice(id.lastIndexOf('-') + 1) : undefined

/**
 * A new value has a new id, so that a process that keeps the values of ids for minutes does not use an old one.
 */
const idOf = ({ kind, fingerprint }: Pick<UserCredentialRow, 'kind' | 'fingerprint'>): string =>
  `${OWN}${kind}-${fingerprint}`

export const toUserCredential = (row: UserCredentialRow): UserCredential => {
  const { kind, target, fingerprint, setAt, user, lastUsedAt } = row
  return { kind, target, fingerprint, credentialId: idOf(row), setAt, ...present({ user, lastUsedAt }) }
}

type Follower = (owners: ReadonlySet<string>) => Promise<void> | void

export interface UserCredentialsOptions {
  readonly store: Pick<Store, 'engine' | 'listUserCredentials' | 'readSetting' | 'noteUserCredentialUse'>
  readonly seal: Seal
  readonly vault?: Pick<UserVault, 'secretOf'> | undefined
  /** Called with every value before it is used. */
  readonly learn: (owner: string, value: string) => void
  readonly clock: () => Date
  readonly log: Log
}

/** The credentials that owners have set, in memory without their values. The store has the values, sealed, or the vault. */
export class UserCredentials {
  readonly #options: UserCredentialsOptions
  readonly #followers = new Set<Follower>()
  readonly #notedAt = new Map<string, number>()
  #rows: readonly UserCredentialRow[] = []
  #revision: string | undefined
  #reading: Promise<void> = Promise.resolve()

  constructor(options: UserCredentialsOptions) {
    this.#options = options
  }

  /** Reads them for the first time, and again after each change. */
  async start(): Promise<{ stop(): Promise<void> }> {
    await this.refresh()
    const { store, log } = this.#options
    const look = async () => {
      if ((await store.readSetting(USER_CREDENTIALS_REVISION)) !== this.#revision) await this.refresh()
    }
    return repeat(
      () =>
        look().catch((error: unknown) =>
          log.warn('the credentials of users could not be read', { error: messageOf(error) }),
        ),
      LOOK_EVERY_MS[store.engine],
    )
  }

  /** Resolves when everything that was stored before the call is in force in this process. */
  refresh(): Promise<void> {
    const read = this.#reading.then(() => this.#read())
    // One after the other: an older answer must not replace a newer one.
    this.#reading = read.catch(() => undefined)
    return read
  }

  /** Calls back after each change, with the owners of the changed credentials. The change waits for the end of the call. */
  onChange(follower: Follower): () => void {
    this.#followers.add(follower)
    return () => this.#followers.delete(follower)
  }

  of(owner: string): readonly UserCredential[] {
    return this.#rows.filter((row) => row.owner === owner).map(toUserCredential)
  }

  find(owner: string, kind: UserCredential['kind'], target: string): UserCredential | undefined {
    return this.of(owner).find((one) => one.kind === kind && one.target === target)
  }

  /**
   * The value, or the place of it in the vault, which this process cannot read. From the store, so that a value that was removed
   * by another process is not used any more.
   */
  async read(owner: string, id: string): Promise<EgressCredentialAnswer> {
    const rows = await this.#options.store.listUserCredentials(owner)
    const row = rows.find((one) => idOf(one) === id)
    if (!row) throw new SandboxError('credential_absent', 'the owner of the run has removed or replaced it')
    return this.answerFor(row)
  }

  /** The value of a row, or its place in the vault. */
  answerFor(row: UserCredentialRow): EgressCredentialAnswer {
    const version = vaultVersionOf(row)
    if (version === undefined) return { value: this.#open(row) }
    if (this.#options.vault) return { secret: this.#options.vault.secretOf(row, version) }
    throw new SandboxError(
      'credential_absent',
      'it is in a vault that this service does not use; set it again',
    )
  }

  /** The value that is in force in this process. Undefined without one, if the vault has it, or if it cannot be read. */
  valueOf(owner: string, kind: UserCredential['kind'], target: string): string | undefined {
    const row = this.#rows.find((one) => one.owner === owner && one.kind === kind && one.target === target)
    if (!row || vaultVersionOf(row) !== undefined) return undefined
    try {
      return this.#open(row)
    } catch (error) {
      this.#options.log.error('a credential of a user cannot be read', {
        owner,
        kind,
        error: messageOf(error),
      })
      return undefined
    }
  }

  isInVault(owner: string, kind: UserCredential['kind'], target: string): boolean {
    const row = this.#rows.find((one) => one.owner === owner && one.kind === kind && one.target === target)
    return row !== undefined && vaultVersionOf(row) !== undefined
  }

  /** Records the time of a use. Never fails. */
  noteUse(owner: string, id: string): void {
    const row = this.#rows.find((one) => one.owner === owner && idOf(one) === id)
    const { store, clock, log } = this.#options
    const now = clock()
    const key = `${owner} ${id}`
    if (!row || now.getTime() - (this.#notedAt.get(key) ?? 0) < NOTE_EVERY_MS) return
    this.#notedAt.set(key, now.getTime())
    const { fingerprint } = row
    void bestEffort(log, 'note the use of a credential', () =>
      store.noteUserCredentialUse({ owner, fingerprint }, now.toISOString()),
    )
  }

  #open(row: UserCredentialRow): string {
    const value = this.#options.seal.open(row)
    this.#options.learn(row.owner, value)
    return value
  }

  async #read(): Promise<void> {
    const { store, log } = this.#options
    // Read first: a change in between is read again.
    this.#revision = await store.readSetting(USER_CREDENTIALS_REVISION)
    const rows = await store.listUserCredentials()
    const before = new Set(this.#rows.map(keyOf))
    const after = new Set(rows.map(keyOf))
    const changed = [
      ...rows.filter((row) => !before.has(keyOf(row))),
      ...this.#rows.filter((row) => !after.has(keyOf(row))),
    ]
    this.#rows = rows
    const isNew = (row: UserCredentialRow) => !before.has(keyOf(row)) && vaultVersionOf(row) === undefined
    for (const row of rows.filter(isNew)) {
      // Redacted from now on, also if no run uses it.
      try {
        this.#open(row)
      } catch (error) {
        log.warn('a credential of a user cannot be read', { owner: row.owner, error: messageOf(error) })
      }
    }
    if (changed.length === 0) return
    const owners = new Set(changed.map(({ owner }) => owner))
    await Promise.all([...this.#followers].map((follower) => follower(owners)))
  }
}

const keyOf = (row: UserCredentialRow): string =>
  JSON.stringify([row.owner, row.kind, row.target, row.sealed])

/** Where no process inserts the credentials of owners. */
export const NO_OWN_CREDENTIALS: Pick<UserCredentials, 'of' | 'find' | 'read' | 'onChange'> = {
  of: () => [],
  find: () => undefined,
  read: () =>
    Promise.reject(new SandboxError('credential_absent', 'this deployment inserts no credentials of owners')),
  onChange: () => () => undefined,
}
