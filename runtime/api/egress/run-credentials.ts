import { join } from 'node:path'
import {
  EGRESS_ENVIRONMENT_FILE,
  type EgressDestination,
  type EgressEnvironment,
  type EgressGeneration,
} from '../../../contracts/egress.ts'
import type { EgressCredentialAnswer } from '../../../contracts/egress-control.ts'
import type { ListedDestination } from '../../../policies/agent/egress/allowlist.ts'
import { pushRuleOf } from '../../../policies/agent/tighten.ts'
import { SandboxError } from '../../kit/errors.ts'
import { replaceFile } from '../../state-folder/replace-file.ts'
import type { RunRow } from '../../store/store.ts'
import type { OperatorCredentials } from '../credentials/model-key.ts'
import {
  GIT_USER,
  isMissing,
  type OwnDestination,
  withOwnCredential,
} from '../credentials/own-destinations.ts'
import { placeholderOf } from '../credentials/placeholder.ts'
import { isOwnId, type UserCredentials } from '../credentials/user-credentials.ts'

/** What the commands of a run hold instead of credentials, and where the proxy inserts these. */
export interface RunCredentials {
  forRun(
    run: Pick<RunRow, 'id' | 'owner'> & Partial<Pick<RunRow, 'settings'>>,
    destinations: readonly ListedDestination[],
  ): {
    readonly destinations: EgressDestination[]
    readonly placeholders: NonNullable<EgressGeneration['placeholders']>
    /** Absent if commands need none. */
    readonly environment?: EgressEnvironment
  }
  /** Returns the value of a credential for a run of this owner, or its place in the vault. */
  readonly read: (credential: string, owner: string) => Promise<EgressCredentialAnswer>
  /** The credential of an owner for a model server. */
  readonly ownModelKey: (owner: string, upstream: string) => string | undefined
  readonly hasOperators: (credential: string) => boolean
  /** The kind of credential that an entry for the host requires of each owner, and this owner has not set. */
  readonly missingAt: (
    owner: string,
    host: string,
    destinations: readonly ListedDestination[],
  ) => ListedDestination['accepts']
  /** Calls back when owners have changed their credentials. */
  readonly onChange: (follower: (owners: ReadonlySet<string>) => Promise<void> | void) => () => void
}

/** The value, for the process that inserts credentials on this machine. It reads no vault. */
export function valueHere(found: EgressCredentialAnswer): string {
  if ('value' in found) return found.value
  throw new SandboxError('credential_absent', 'it is in a vault, which only a cluster uses; set it again')
}

/** Placeholders that are remembered. The state of a cluster's proxies needs each of them several times a second. */
const MAX_REMEMBERED = 4096

/** The placeholder of an owner's token. It stays the same when the token is replaced, so it has no shape of a value. */
const OF_OWNER = {
  github: { shape: { prefix: 'ghp_', length: 40 }, variable: 'GITHUB_TOKEN' },
} as const
const isOfOwner = (alias: string): alias is keyof typeof OF_OWNER => alias in OF_OWNER

export function createRunCredentials(
  credentials: OperatorCredentials,
  own: Pick<UserCredentials, 'of' | 'find' | 'read' | 'onChange'>,
  key: Uint8Array,
): RunCredentials {
  const remembered = new Map<string, string>()
  const make = (runId: string, alias: string): string => {
    const wanted = { runId, caller: 'commands', credential: alias }
    return !credentials.has(alias) && isOfOwner(alias)
      ? placeholderOf(key, wanted, OF_OWNER[alias].shape)
      : credentials.placeholderOf(key, wanted)
  }
  const derive = (runId: string, alias: string): string => {
    const name = `${runId} ${alias}`
    const known = remembered.get(name)
    if (known !== undefined) return known
    const value = make(runId, alias)
    if (remembered.size >= MAX_REMEMBERED) remembered.clear()
    remembered.set(name, value)
    return value
  }
  const variableOf = (alias: string): string | undefined =>
    !credentials.has(alias) && isOfOwner(alias) ? OF_OWNER[alias].variable : credentials.variableOf(alias)

  return {
    read: async (credential, owner) =>
      isOwnId(credential) ? own.read(owner, credential) : { value: await credentials.read(credential) },
    ownModelKey: (owner, upstream) => own.find(owner, 'openai-compatible', upstream)?.credentialId,
    hasOperators: credentials.has,
    missingAt: (owner, host, listed) =>
      listed.filter((one) => one.host === host).find((one) => isMissing(one, own.of(owner), credentials.has))
        ?.accepts,
    onChange: (follower) => own.onChange(follower),
    forRun({ id: runId, owner, settings }, listed) {
      const ownOnes = own.of(owner)
      const all = listed
        .map((one) => withOwnCredential(one, ownOnes, credentials.has))
        .map((one) => withKind(one, credentials))
      const destinations = all.map(({ destination }) => destination)
      const held = all.flatMap(({ destination: { credential }, alias }) =>
        credential === undefined || alias === undefined ? [] : [{ credential, alias }],
      )
      const aliasOf = new Map(held.map(({ credential, alias }) => [credential, alias]))
      const placeholders = [...aliasOf].map(([credential, alias]) => ({
        credential,
        value: derive(runId, alias),
      }))
      const variables = [...aliasOf.values()].flatMap((alias) => {
        const name = variableOf(alias)
        return name === undefined ? [] : [[name, derive(runId, alias)] as const]
      })
      const gitConfig = all.flatMap(({ destination, alias }) =>
        alias === undefined || !isForGit(destination) ? [] : gitHeaders(destination, derive(runId, alias)),
      )
      const isAllowed = settings !== undefined && pushRuleOf(settings) === 'allow'
      if (isAllowed && destinations.some(mayPush)) variables.push([BRANCH_PREFIX, `agentweaver/${runId}/`])
      return {
        destinations,
        placeholders,
        ...(variables.length + gitConfig.length > 0 && {
          environment: { variables: Object.fromEntries(variables), gitConfig },
        }),
      }
    },
  }
}

/** A client certificate is in no request, so it has no placeholder. */
function withKind(
  one: OwnDestination,
  { isCertificate }: Pick<OperatorCredentials, 'isCertificate'>,
): OwnDestination {
  const { credential } = one.destination
  return credential !== undefined && isCertificate(credential)
    ? { destination: { ...one.destination, credentialKind: 'client-certificate' } }
    : one
}

/** In this variable, commands find the beginning of the names of branches that the run may push. */
const BRANCH_PREFIX = 'AGENTWEAVER_BRANCH_PREFIX'

const mayPush = ({ credential, requests = [] }: EgressDestination): boolean =>
  credential !== undefined &&
  requests.some(({ paths }) => paths.some((path) => path.endsWith('/git-receive-pack')))

const isForGit = ({ requests = [] }: EgressDestination): boolean =>
  requests.some(({ paths }) => paths.some((path) => path.endsWith('/git-upload-pack')))

/** Git sends the header at once. With a credential helper, each operation would begin with a refused request. */
function gitHeaders({ host, ports }: EgressDestination, placeholder: string): [string, string][] {
  const header = `Authorization: Basic ${Buffer.from(`${GIT_USER}:${placeholder}`).toString('base64')}`
  return ports.map((port) => [`http.https://${host}${port === 443 ? '' : `:${port}`}/.extraHeader`, header])
}

/** Writes the variables of commands with network access, where the executor of the sandbox reads them. */
export const writeEnvironment = (folder: string, environment: EgressEnvironment): Promise<void> =>
  replaceFile(join(folder, EGRESS_ENVIRONMENT_FILE), JSON.stringify(environment))
