import {
  HOST_KINDS,
  type SetUserCredential,
  type SetUserCredentialAnswer,
  USER_CREDENTIAL_LIMITS,
  type UserCredential,
  type UserCredentialKind,
  type UserCredentialList,
  type UserCredentialQuery,
} from '../../../contracts/user-credentials.ts'
import { parseHostName } from '../../../policies/agent/egress/host-name.ts'
import type { AuditDraft } from '../../audit/chain.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { UserCredentialRow } from '../../store/service-rows.ts'
import type { Store, Transaction } from '../../store/store.ts'
import type { CredentialHosts } from '../egress/network-rules.ts'
import type { AuditTrail } from '../runs/audit-trail.ts'
import type { Caller } from '../runs/service.ts'
import type { CheckResult, CredentialCheck } from './credential-check.ts'
import { GITHUB_TARGET } from './own-destinations.ts'
import type { Seal } from './sealed-value.ts'
import { toUserCredential, type UserCredentials } from './user-credentials.ts'
import { inVault, type UserVault, vaultVersionOf } from './user-vault.ts'

/** A caller with the API key of the request. Signed-in people have none. */
export type CredentialCaller = Caller & { readonly apiKeyId?: string }

/** The credentials of the caller. Every caller has only the own ones, and no call returns a value. */
export interface UserCredentialService {
  /** Replaces the value for the same target. */
  set(
    caller: CredentialCaller,
    kind: UserCredentialKind,
    wanted: SetUserCredential,
  ): Promise<SetUserCredentialAnswer>
  list(caller: Caller): Promise<UserCredentialList>
  /** In force for the next request of every run when it returns. `not_found` without one. */
  remove(caller: CredentialCaller, kind: UserCredentialKind, of: UserCredentialQuery): Promise<UserCredential>
}

/** Where credentials are of use in this service. */
export interface CredentialPlaces {
  /** Base URL of the model server, if agents reach it through the egress proxy. */
  readonly modelServer: string | undefined
  /** Servers of the egress list. Undefined where no process inserts credentials. */
  readonly hosts: CredentialHosts | undefined
}

type Deps = {
  readonly store: Pick<Store, 'transaction' | 'listUserCredentials'>
  readonly audit: Pick<AuditTrail, 'append'>
  readonly credentials: Pick<UserCredentials, 'refresh'>
  readonly seal: Seal
  /** Where new values are stored. Without it, the store has them, encrypted. */
  readonly vault?: UserVault | undefined
  readonly places: CredentialPlaces
  /** AgentHost reads the newest version of GitHub tokens in the vault, because the egress proxy inserts none. @default false */
  readonly isReadByAgentHost?: boolean
  readonly learn: (owner: string, value: string) => void
  /** Absent where the service has no way through the egress proxy. */
  readonly check?: CredentialCheck | undefined
  readonly now: () => Date
}

type Change = {
  readonly row: UserCredentialRow
  /** The credentials that the owner had before. */
  readonly own: readonly UserCredentialRow[]
}

const NO_CHECK: CredentialCheck = async () => ({
  isChecked: false,
  reason: 'the service of this deployment has no way to its server',
})

const NOT_WANTED: CheckResult = { isChecked: false, reason: 'you asked to store it without a check' }

const STILL_THERE = 'The value that you sent is still in the vault, and could not be disabled there'

const EARLIER_LOST =
  'Set the credential again: until then, runs of the kind copilot cannot use your earlier one either.'

const invalid = (message: string) => new SandboxError('invalid_request', message)

export function createUserCredentialService(deps: Deps): UserCredentialService {
  const { store, audit, credentials, seal, vault, places, learn, check = NO_CHECK, now } = deps
  const losesEarlier = (row: UserCredentialRow, own: readonly UserCredentialRow[]) =>
    deps.isReadByAgentHost &&
    row.kind === 'github' &&
    own.some((one) => isSame(one, row) && vaultVersionOf(one) !== undefined)

  /** Encrypts the value, or writes it into the vault. Returns the row for it, which is not stored yet. */
  const keep = async (
    of: Pick<UserCredentialRow, 'owner' | 'kind' | 'target' | 'user'>,
    value: string,
  ): Promise<UserCredentialRow> => {
    const fingerprint = seal.fingerprintOf(of, value)
    const sealed = vault ? inVault(await vault.write(of, value)) : seal.seal(of, fingerprint, value)
    return { ...of, fingerprint, sealed, keyId: seal.keyId, setAt: now().toISOString() }
  }

  const commit = (row: UserCredentialRow, caller: CredentialCaller) =>
    store.transaction(async (tx) => {
      await tx.auditHead('')
      await refuseMore(tx, row)
      await tx.writeUserCredential(row)
      await audit.append(tx, '', [recordOf(row, caller, { kind: 'credential.set', at: row.setAt })])
    })

  /**
   * Disables the newest version in the vault if `work` fails. No row names this version then, and AgentHost would read it. `own`: the
   * earlier credentials of the owner.
   */
  const orUndo = async <T>({ row, own }: Change, work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      if (vaultVersionOf(row) !== undefined) await vault?.disable(row, STILL_THERE).catch(both(error))
      throw losesEarlier(row, own) ? extended(error, EARLIER_LOST) : error
    }
  }

  return {
    async set(caller, kind, { value, host, user, check: isWanted = true }) {
      if (user !== undefined && !isOfHost(kind))
        throw invalid('`user` is only for credentials of the kinds git and registry.')
      const { owner } = caller
      const of = { owner, kind, target: usableTarget(places, kind, host), ...present({ user }) }
      // Checked before the value is written: a rejected credential must not leave a secret in the vault.
      const own = await refuseMore(store, of)
      // The value is redacted from here on, before anything stores it.
      learn(owner, value)
      const row = await keep(of, value)
      const checked = await orUndo({ row, own }, async () => {
        const result = isWanted ? await check({ row, value }) : NOT_WANTED
        await commit(row, caller)
        return result
      })
      await credentials.refresh()
      return { ...toUserCredential(row), ...(!checked.isChecked && { unchecked: checked.reason }) }
    },

    async list({ owner }) {
      return { items: (await store.listUserCredentials(owner)).map(toUserCredential) }
    },

    async remove(caller, kind, { host }) {
      const found = await requireOne(store, caller, { kind, host })
      // First in the vault: while the row exists, the owner can try again.
      if (vaultVersionOf(found) !== undefined) await vault?.disable(found, 'Your credential is still set')
      const removed = await store.transaction(async (tx) => {
        await tx.auditHead('')
        const row = await requireOne(tx, caller, { kind, host })
        await tx.deleteUserCredential(row)
        const at = now().toISOString()
        await audit.append(tx, '', [recordOf(row, caller, { kind: 'credential.removed', at })])
        const view = toUserCredential(row)
        await caller.keep?.(tx, view)
        return view
      })
      await credentials.refresh()
      return removed
    },
  }
}

/** Throws the failure of a change together with the failure to undo it. */
const both =
  (change: unknown) =>
  (undo: unknown): never => {
    throw extended(change, messageOf(undo))
  }

const extended = (change: unknown, more: string): SandboxError => {
  const code = change instanceof SandboxError ? change.code : 'internal'
  return new SandboxError(code, `${messageOf(change)} ${more}`, { cause: change })
}

/** The target of a new credential. A credential that no run could use is refused. */
function usableTarget(places: CredentialPlaces, kind: UserCredentialKind, host: string | undefined): string {
  if (isOfHost(kind)) return listedHostOf(places, kind, host)
  if (host !== undefined) throw invalid('`host` is only for credentials of the kinds git and registry.')
  return kind === 'github' ? GITHUB_TARGET : modelServerOf(places)
}

function modelServerOf({ modelServer }: CredentialPlaces): string {
  if (modelServer !== undefined) return modelServer
  throw invalid(
    'This service has no model server that agents reach through the egress proxy (OPENAI_BASE_URL), so no run could use this key.',
  )
}

type HostKind = keyof CredentialHosts
const isOfHost = (kind: UserCredentialKind): kind is HostKind => HOST_KINDS.has(kind)

const SERVERS: Readonly<Record<HostKind, { readonly name: string; readonly preset: string }>> = {
  git: { name: 'git server', preset: 'git' },
  registry: { name: 'package registry', preset: 'npm' },
}

function listedHostOf({ hosts }: CredentialPlaces, kind: HostKind, host: string | undefined): string {
  if (hosts === undefined)
    throw invalid(
      'The egress proxy of this deployment inserts no credentials, so no run could use this one. An operator can change that with egress.credentials of the environment, which may be an empty list (docs/credentials.md).',
    )
  const target = hostOf(kind, host)
  if (hosts[kind].has(target)) return target
  const { name, preset } = SERVERS[kind]
  const listed = [...hosts[kind]].sort().join(', ')
  const known = listed === '' ? `The list names no ${name} at all.` : `The list names ${listed}.`
  const other = kind === 'git' && target === 'github.com' ? ' The kind for GitHub is github.' : ''
  throw invalid(
    `The egress list of this service has no ${name} at ${target}. ${known}${other} An operator can add an entry with "preset: ${preset}" and this host, for example.`,
  )
}

function hostOf(kind: HostKind, host: string | undefined): string {
  if (host === undefined)
    throw invalid(`A credential of the kind ${kind} needs the \`host\` of the ${SERVERS[kind].name}.`)
  const parsed = parseHostName(host)
  if (parsed.kind === 'name') return parsed.name
  throw invalid(`${host} is not the name of a host.`)
}

type Target = Pick<UserCredentialRow, 'kind' | 'target'>

const isSame = (one: Target, other: Target): boolean => one.kind === other.kind && one.target === other.target

/** Returns the credentials of the owner. Throws `conflict` if a new one would exceed the limit. */
async function refuseMore(
  tx: Pick<Transaction, 'listUserCredentials'>,
  { owner, kind, target }: Pick<UserCredentialRow, 'owner' | 'kind' | 'target'>,
): Promise<readonly UserCredentialRow[]> {
  const own = await tx.listUserCredentials(owner)
  const isNew = !own.some((one) => isSame(one, { kind, target }))
  if (!isNew || own.length < USER_CREDENTIAL_LIMITS.perOwner) return own
  throw new SandboxError(
    'conflict',
    `You have ${own.length} credentials, which is the limit. Remove one first: agentweaver credential remove KIND.`,
  )
}

/** A credential can be removed although its target is no longer in use. */
async function requireOne(
  tx: Pick<Transaction, 'listUserCredentials'>,
  { owner }: Caller,
  { kind, host }: { readonly kind: UserCredentialKind; readonly host: string | undefined },
): Promise<UserCredentialRow> {
  const target = isOfHost(kind) ? hostOf(kind, host) : undefined
  const found = (await tx.listUserCredentials(owner)).filter(
    (one) => one.kind === kind && (target === undefined || one.target === target),
  )
  const [row] = found
  if (row) return row
  const what = target === undefined ? kind : `${kind} for ${target}`
  throw new SandboxError('not_found', `You have not set a credential ${what}.`)
}

const recordOf = (
  row: UserCredentialRow,
  { owner, apiKeyId }: CredentialCaller,
  { kind, at }: { readonly kind: 'credential.set' | 'credential.removed'; readonly at: string },
): AuditDraft => ({
  kind,
  runId: '',
  callId: toUserCredential(row).credentialId,
  actor: `person:${owner}`,
  tool: kind === 'credential.set' ? 'credential.set' : 'credential.remove',
  policyVersion: '',
  reasons: [
    `kind ${row.kind}`,
    `for ${row.target}`,
    `fingerprint ${row.fingerprint}`,
    ...(apiKeyId === undefined ? [] : [`with ${apiKeyId}`]),
  ],
  at,
})
