import { type EgressDestination, OF_EACH_OWNER } from '../../../contracts/egress.ts'
import type { UserCredential } from '../../../contracts/user-credentials.ts'
import { type ListedDestination, UNSIGNED } from '../../../policies/agent/egress/allowlist.ts'
import { present } from '../../kit/present.ts'

/** The only target of the kind `github`: its entries of the egress list are for these two hosts. */
export const GITHUB_TARGET = 'github.com'

/** Git needs a user name, and most servers that accept tokens ignore it. */
export const GIT_USER = 'x-access-token'

export interface OwnDestination {
  readonly destination: EgressDestination
  /** The operator's credential of the entry, or the kind, whose placeholder stands for the owner's credential. */
  readonly alias?: string
}

/**
 * The destination with the credential of the run's owner, if it accepts one and the owner has set it. Otherwise with the
 * operator's credential, if its entry names one.
 */
export function withOwnCredential(
  { accepts, ...destination }: ListedDestination,
  own: readonly UserCredential[],
  isOperators: (id: string) => boolean,
): OwnDestination {
  const { credential: named, ...anonymous } = destination
  const operators = named !== undefined && isOperators(named) ? named : undefined
  const found =
    accepts && own.find((one) => one.kind === accepts && one.target === targetOf(accepts, destination))
  if (!found) return operators === undefined ? { destination: anonymous } : { destination, alias: operators }
  return inserting(found, anonymous, operators)
}

type Anonymous = Omit<EgressDestination, 'credential'>

/** The destination with the credential of an owner, whose placeholder has the name of the operator's if there is one. */
function inserting(
  { kind, credentialId: credential, user }: UserCredential,
  anonymous: Anonymous,
  operators: string | undefined,
): OwnDestination {
  // The agent does not have the token, so the proxy adds it to each request, and reads the requests for this.
  if (isOfAgent(anonymous))
    return { destination: { ...anonymous, authority: UNSIGNED, credential, attach: {} } }
  if (kind === 'github') return { destination: { ...anonymous, credential }, alias: operators ?? kind }
  const attach = kind === 'git' ? { user: user ?? GIT_USER } : present({ user })
  return { destination: { ...anonymous, credential, attach } }
}

const isOfAgent = ({ caller }: Pick<EgressDestination, 'caller'>): boolean => caller === 'agent-host'

/** Whether the entry names the credential of each owner, and this owner has not set it. */
export const isMissing = (
  destination: ListedDestination,
  own: readonly UserCredential[],
  isOperators: (id: string) => boolean,
): boolean => {
  const { credential: named, accepts } = destination
  const isRequired =
    named !== undefined && accepts !== undefined && named === OF_EACH_OWNER[accepts] && !isOperators(named)
  return isRequired && withOwnCredential(destination, own, isOperators).destination.credential === undefined
}

const targetOf = (kind: NonNullable<ListedDestination['accepts']>, { host }: EgressDestination): string =>
  kind === 'github' ? GITHUB_TARGET : host
