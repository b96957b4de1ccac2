import { STATUS_CODES } from 'node:http'
import type { CredentialCheckPlan, CredentialVerdict } from '../../../contracts/credential-check.ts'
import type { EgressDestination, ModelRoute } from '../../../contracts/egress.ts'
import type { UserCredentialKind } from '../../../contracts/user-credentials.ts'
import { intersectHosts } from '../../../policies/agent/egress/narrow.ts'
import { SandboxError } from '../../kit/errors.ts'
import { present } from '../../kit/present.ts'
import type { UserCredentialRow } from '../../store/service-rows.ts'
import { GIT_USER } from './own-destinations.ts'
import { vaultVersionOf } from './user-vault.ts'

export type CheckResult =
  | { readonly isChecked: true }
  /** Why it was not checked, in words. */
  | { readonly isChecked: false; readonly reason: string }

/** A credential that is not stored yet. */
export interface NewCredential {
  readonly row: UserCredentialRow
  readonly value: string
}

/** Throws `invalid_request` if the server does not accept the value. */
export type CredentialCheck = (credential: NewCredential) => Promise<CheckResult>

/** Carries out the request of a check. */
export type AskServer = (plan: CredentialCheckPlan, credential: NewCredential) => Promise<CredentialVerdict>

const GITHUB_API = 'api.github.com'
/** Any token may ask for its limits, and the request counts against none. GitHub responds with 401 to an unknown token. */
const GITHUB_PATH = '/rate_limit'

type Parts = {
  readonly askServer: AskServer
  /** The model server as the requests of agents reach it. */
  readonly routeTo: (server: string) => ModelRoute
  /** The hosts of the operator's ceiling. Undefined if it names none. */
  readonly hosts: readonly string[] | undefined
  /** An entry of the operator's list for a git server. */
  readonly gitServer: (host: string) => EgressDestination | undefined
}

/** A request, or the reason why the value cannot be checked. */
type Planned = CredentialCheckPlan | string

/** Asks the server of a credential with one cheap request, within the operator's ceiling. */
export function createCredentialCheck({ askServer, routeTo, hosts, gitServer }: Parts): CredentialCheck {
  const unlessWithheld = (host: string, plan: Planned): Planned =>
    hosts === undefined || intersectHosts(hosts, [host]).length > 0
      ? plan
      : `the ceiling of this service does not allow ${host} (egress_hosts)`
  const planFor: Readonly<Record<UserCredentialKind, (row: UserCredentialRow) => Planned>> = {
    registry: () => 'registries have no common request for it',
    git: ({ target, user }) => unlessWithheld(target, planOfGit(gitServer(target), user)),
    github: () => unlessWithheld(GITHUB_API, GITHUB_PLAN),
    'openai-compatible': ({ target }) => ({ kind: 'model', route: routeTo(target) }),
  }
  return async (credential) => {
    const plan = planFor[credential.row.kind](credential.row)
    if (typeof plan === 'string') return { isChecked: false, reason: plan }
    const answer = await askServer(plan, credential)
    if (answer.verdict === 'accepted') return { isChecked: true }
    if (answer.verdict === 'unchecked') return { isChecked: false, reason: answer.reason }
    const words = `${answer.status} ${STATUS_CODES[answer.status] ?? ''}`.trim()
    throw new SandboxError(
      'invalid_request',
      `${SERVERS[credential.row.kind](credential.row)} does not accept this value: ${words}. ${effectFor(credential)}`,
    )
  }
}

/** The vault has a refused value too, because the egress proxy reads it there to check it. */
const effectFor = ({ row }: NewCredential): string =>
  vaultVersionOf(row) === undefined
    ? 'Nothing was stored.'
    : 'It is not used. The vault keeps it in an old version until your data is erased.'

const SERVERS: Readonly<Record<UserCredentialKind, (row: UserCredentialRow) => string>> = {
  github: () => 'GitHub',
  git: ({ target }) => `The git server ${target}`,
  registry: ({ target }) => `The registry ${target}`,
  'openai-compatible': ({ target }) => `The model server at ${target}`,
}

/** Permits GET requests to one port of one host, and no other connection. */
const only = (host: string, port: number): EgressDestination => ({
  ...{ host, ports: [port], methods: ['GET'], phases: ['work'], caller: 'any' },
})

const GITHUB_PLAN: CredentialCheckPlan = {
  ...{ kind: 'host', destination: only(GITHUB_API, 443), path: GITHUB_PATH, isPublicPossible: false },
}

/** Asks for the list of refs of a repository of the entry. */
function planOfGit(entry: EgressDestination | undefined, user = GIT_USER): Planned {
  const paths = entry?.requests?.flatMap((one) => one.paths) ?? []
  const refs = paths.find((path) => path.endsWith('.git/info/refs') && !path.includes('*'))
  if (!entry || refs === undefined) return 'the egress list names no repository of this server'
  const { host, ports, addresses } = entry
  return {
    kind: 'host',
    destination: { ...only(host, ports[0] ?? 443), ...present({ addresses }) },
    path: `${refs}?service=git-upload-pack`,
    user,
    isPublicPossible: true,
  }
}
