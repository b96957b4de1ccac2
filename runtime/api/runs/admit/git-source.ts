import type { WorkspaceSource } from '../../../../contracts/api.ts'
import type { SandboxKind } from '../../../../contracts/names.ts'
import type { SandboxSettings } from '../../../../contracts/policy.ts'
import { HOST_KINDS } from '../../../../contracts/user-credentials.ts'
import {
  cloneAccess,
  type GitUrl,
  mayPush,
  parseGitUrl,
  refFault,
} from '../../../../policies/agent/egress/git-url.ts'
import { SandboxError } from '../../../kit/errors.ts'
import type { RunDeps } from '../deps.ts'
import type { OwnersKind, RunNetworks } from '../use/run-networks.ts'

type GitSource = Extract<WorkspaceSource, { kind: 'git' }>

const invalid = (message: string) => new SandboxError('workspace_invalid', message)

/** A source with its URL in one spelling. Throws `workspace_invalid` if it can never be cloned. */
export function admitGitSource(source: GitSource): GitSource {
  const fault = source.ref === undefined ? undefined : refFault(source.ref)
  if (fault !== undefined) throw invalid(fault)
  return { ...source, url: repositoryOf(source).url }
}

export function repositoryOf({ url }: Pick<GitSource, 'url'>): GitUrl {
  const parsed = parseGitUrl(url)
  if (!parsed.ok) throw invalid(parsed.reason)
  return parsed.repository
}

type Wish = {
  readonly source: GitSource
  readonly kind: SandboxKind
  readonly owner: string
  readonly settings: SandboxSettings
  /** The sandbox also pushes. @default it only clones */
  readonly isPush?: boolean
}

/** Throws if the sandbox of a run could not reach the repository, before the run exists. */
export function requireReachable(
  { networks, ceiling }: Pick<RunDeps, 'networks' | 'ceiling'>,
  wish: Wish,
): void {
  const repository = repositoryOf(wish.source)
  if (!networks)
    throw invalid(
      'This deployment has no egress proxy, through which a sandbox clones. Upload the files instead, or ask an operator to set egress.mode: proxy.',
    )
  const destinations = networks.destinationsOf(wish, wish.kind)
  if (!destinations) throw new SandboxError('policy_denied', noNetwork(ceiling))
  const access = cloneAccess(
    destinations,
    repository,
    wish.settings.setup_commands?.length ? 'setup' : 'work',
  )
  if (access !== 'allowed')
    throw new SandboxError('policy_denied', notListed(networks, { ...wish, repository, access }))
  if (wish.isPush && !mayPush(destinations, repository, 'work'))
    throw new SandboxError('policy_denied', readOnly(repository))
  const missing = networks.missingCredential(wish, repository.host)
  if (missing) throw invalid(missingWords(repository, missing))
}

const readOnly = ({ url, host, path }: GitUrl): string =>
  `The egress list allows to read ${url}, and not to push to it. An operator can set mode: full in the entry of ${host} with the repository ${path}, and restart the service.`

const missingWords = ({ url, host }: GitUrl, kind: OwnersKind): string => {
  const command = HOST_KINDS.has(kind) ? `${kind} --host ${host}` : kind
  return `The repository ${url} is cloned with your own credential, which you have not set: agentweaver credential set ${command}`
}

const noNetwork = ({ network_enabled: isAllowed }: SandboxSettings): string =>
  isAllowed
    ? 'A sandbox clones over the network, which the settings or the request turn off for this run. Start it with network access (--network), or upload the files.'
    : 'A sandbox clones over the network, which the ceiling of this service does not allow. An operator can allow it with network_enabled: true in AGENTWEAVER_CEILING_FILE. Without it, upload the files.'

type Missing = Wish & { readonly repository: GitUrl; readonly access: 'host' | 'repository' }

function notListed(networks: RunNetworks, { repository, access, ...wish }: Missing): string {
  const { host, port, path } = repository
  if (networks.standingOf({ ...wish, allowedHosts: [] }, host) === 'withheld')
    return `The settings of this run leave out the host ${host}: egress_hosts must contain it, and --egress-host if it is given.`
  const ports = port === 443 ? '' : `, ports: [${port}]`
  const entry = `{preset: git, host: ${host}${ports}, mode: read-only, repositories: [${path}], why: a run works on it}`
  return access === 'host'
    ? `The egress list does not allow the host ${host} at port ${port} to sandboxes of this class. An operator can add an entry to the egress file of the service, and restart the service: ${entry}.`
    : `The egress list has the host ${host}, but does not allow to clone ${path} from it. An operator can add an entry to the egress file of the service, and restart the service: ${entry}.`
}
