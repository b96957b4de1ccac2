import type { UserCredentialKind } from '../../../contracts/user-credentials.ts'
import type { Store } from '../../store/store.ts'
import { GITHUB_TARGET } from './own-destinations.ts'
import type { CredentialPlaces } from './user-credential-service.ts'
import { type UserVault, vaultVersionOf } from './user-vault.ts'

type Of = Parameters<UserVault['delete']>[0]

interface Parts {
  readonly store: Pick<Store, 'listUserCredentials'>
  readonly vault: Pick<UserVault, 'delete'>
  readonly places: CredentialPlaces
}

/**
 * Deletes the secrets of an owner from the vault, before the rows that name them. Returns the time at which the vault has purged
 * the last one, and undefined if there was none.
 *
 * A credential that the owner has removed has no row, and its earlier versions are still in the vault. So the secret for each
 * server that this service knows is deleted too.
 */
export async function eraseSecrets(
  { store, vault, places }: Parts,
  owner: string,
): Promise<Date | undefined> {
  const rows = await store.listUserCredentials(owner)
  const inVault = rows.filter((row) => vaultVersionOf(row) !== undefined)
  const all = new Map<string, Of>()
  for (const { kind, target } of [...inVault, ...serversIn(places)])
    all.set(`${kind} ${target}`, { owner, kind, target })
  let last: Date | undefined
  for (const of of all.values()) {
    const purgedAt = await vault.delete(of)
    if (purgedAt && (!last || purgedAt > last)) last = purgedAt
  }
  return last
}

type Server = { readonly kind: UserCredentialKind; readonly target: string }

const serversIn = ({ modelServer, hosts }: CredentialPlaces): Server[] => [
  { kind: 'github', target: GITHUB_TARGET },
  ...(modelServer === undefined ? [] : [{ kind: 'openai-compatible' as const, target: modelServer }]),
  ...[...(hosts?.git ?? [])].map((target) => ({ kind: 'git' as const, target })),
  ...[...(hosts?.registry ?? [])].map((target) => ({ kind: 'registry' as const, target })),
]
