import type { UserCredentialKind } from '../../../contracts/user-credentials.ts'
import type { Store } from '../../store/store.ts'
import { GITHUB_TARGET } from './own-destinations.ts'
import type { CredentialPlaces } from './user-credential-service.ts'
import { type SecretPurge, type UserVault, vaultVersionOf } from './user-vault.ts'

type Of = Parameters<UserVault['delete']>[0]

interface Parts {
  readonly store: Pick<Store, 'listUserCredentials'>
  readonly vault: Pick<UserVault, 'delete'>
  readonly places: CredentialPlaces
}

/**
 * Deletes the secrets of an owner from the vault, before the rows that name them. Returns when the vault purges the last one,
 * and undefined if there was none.
 *
 * A credential that the owner has removed has no row, and its earlier versions are still in the vault. So the secret for each
 * server that this service knows is deleted too.
 */
export async function eraseSecrets(
  { store, vault, places }: Parts,
  owner: string,
): Promise<SecretPurge | undefined> {
  const rows = await store.listUserCredentials(owner)
  const inVault = rows.filter((row) => vaultVersionOf(row) !== undefined)
  const keyOf = ({ kind, target }: Server) => `${kind} ${target}`
  const set = new Set(inVault.map(keyOf))
  const all = new Map<string, Of>()
  for (const { kind, target } of [...inVault, ...serversIn(places)])
    all.set(keyOf({ kind, target }), { owner, kind, target })
  let last: SecretPurge | undefined
  for (const [key, of] of all) {
    const purge = await vault.delete(of, set.has(key))
    last = purge && last ? later(purge, last) : (purge ?? last)
  }
  return last
}

const later = (one: SecretPurge, other: SecretPurge): SecretPurge => ({
  at: new Date(Math.max(one.at.getTime(), other.at.getTime())),
  isExact: one.isExact && other.isExact,
})

type Server = { readonly kind: UserCredentialKind; readonly target: string }

const serversIn = ({ modelServer, hosts }: CredentialPlaces): Server[] => [
  { kind: 'github', target: GITHUB_TARGET },
  ...(modelServer === undefined ? [] : [{ kind: 'openai-compatible' as const, target: modelServer }]),
  ...[...(hosts?.git ?? [])].map((target) => ({ kind: 'git' as const, target })),
  ...[...(hosts?.registry ?? [])].map((target) => ({ kind: 'registry' as const, target })),
]
