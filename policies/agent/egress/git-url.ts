import type { EgressDestination } from '../../../contracts/egress.ts'
import { GIT_REF } from '../../../contracts/git-source.ts'
import type { RunPhase } from '../../../contracts/policy.ts'
import { parseHostName } from './host-name.ts'
import { hasHost } from './narrow.ts'
import { matchesSegments, segmentsOf } from './path-pattern.ts'

/** A repository on a server, in the one spelling that every part of the product reads in the same way. */
export interface GitUrl {
  readonly url: string
  readonly host: string
  readonly port: number
  /** Without `/` at its start, and without `.git` at its end. */
  readonly path: string
}

export type ParsedGitUrl =
  | { readonly ok: true; readonly repository: GitUrl }
  | { readonly ok: false; readonly reason: string }

const refused = (reason: string): ParsedGitUrl => ({ ok: false, reason })

const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zs}]/u
const HTTPS = /^https:\/\/([^/?#]*)(\/[^?#]*)?([?#].*)?$/i
const AUTHORITY = /^([^:@[\]]+)(?::(\d{1,5}))?$/
const PATH = /^[A-Za-z0-9_][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)*$/
const SCP_LIKE = /^(?:[^/@:]+@)?([A-Za-z0-9.-]+\.[A-Za-z0-9-]+):(?!\/\/)(.+)$/

/** Reads the URL of a repository. A refusal never repeats the URL, which may contain a password. */
export function parseGitUrl(text: string): ParsedGitUrl {
  if (UNPRINTABLE.test(text))
    return refused('The URL of the repository contains a control character or a space.')
  const other = otherTransport(text)
  if (other !== undefined) return refused(other)
  const [, authority = '', path = '', rest] = HTTPS.exec(text) ?? []
  if (authority.includes('@'))
    return refused(
      'The URL of the repository contains a user or a password. Leave it out: the operator gives the token to the service as a credential of the egress list (docs/placeholders.md).',
    )
  if (rest !== undefined) return refused('The URL of the repository has a query or a fragment. Leave it out.')
  const [, host = '', port = '443'] = AUTHORITY.exec(authority) ?? []
  const parsed = parseHostName(host)
  if (parsed.kind !== 'name' || Number(port) < 1 || Number(port) > 65_535)
    return refused('The URL of the repository must name its server, such as https://github.com/owner/name.')
  return withPath({ host: parsed.name, port: Number(port) }, path)
}

function withPath({ host, port }: Pick<GitUrl, 'host' | 'port'>, written: string): ParsedGitUrl {
  const path = written.slice(1).replace(/\/$/, '')
  const bare = path.replace(/\.git$/, '')
  if (!PATH.test(bare))
    return refused(
      'The path of the repository must be like owner/name: names of letters, digits, ".", "_" and "-", which do not begin with "." or "-".',
    )
  const url = `https://${host}${port === 443 ? '' : `:${port}`}/${path}`
  return { ok: true, repository: { url, host, port, path: bare } }
}

/** Why a URL is not one of https. */
function otherTransport(text: string): string | undefined {
  if (/^https:\/\//i.test(text)) return undefined
  if (/^[^/]*::/.test(text))
    return 'The URL names a remote helper of git, such as ext::. Only https is allowed: https://HOST/OWNER/NAME.'
  if (/^(?:[./~\\]|file:|[A-Za-z]:[\\/])/i.test(text) || !text.includes(':'))
    return 'A repository is the https URL of a server, not a path of a machine. For a folder of this machine, use --workspace DIR or upload its files.'
  if (/^(?:git\+)?ssh:|^ssh\+git:/i.test(text) || SCP_LIKE.test(text)) return sshReason(text)
  const [scheme = ''] = text.split(':')
  return `The repository must be reached over https, not over ${scheme.slice(0, 16).replace(/[^A-Za-z0-9+.-]/g, '')}.`
}

function sshReason(text: string): string {
  const [, host, path] = SCP_LIKE.exec(text) ?? []
  const instead = host && path && PATH.test(path) ? `https://${host}/${path}` : 'https://HOST/OWNER/NAME'
  return `SSH has no way out of a sandbox. Use the https URL of the repository: ${instead}.`
}

/**
 * The key under which the policy of a repository is stored. All spellings of a URL have the same key, because another spelling must
 * not avoid the policy. Many servers ignore case and the end `.git`.
 */
export const repositoryKey = ({ host, port, path }: GitUrl): string =>
  `${host}:${port}/${path.toLowerCase().replace(/(?:\.git)+$/, '')}`

const CONTROL = /[\p{Cc}\p{Cf}]/u
/** Why a ref cannot be used. Undefined if it can. */
export function refFault(ref: string): string | undefined {
  if (CONTROL.test(ref)) return 'The ref contains a control character.'
  if (ref.startsWith('-')) return 'The ref begins with "-". Git would read it as an option.'
  if (GIT_REF.test(ref)) return undefined
  return 'The ref must be the name of a branch or a tag, or a full commit id.'
}

/** How far a list of destinations allows to clone a repository: not its host, not this repository, or completely. */
export function cloneAccess(
  destinations: readonly EgressDestination[],
  repository: GitUrl,
  phase: RunPhase,
): 'host' | 'repository' | 'allowed' {
  const named = namedBy(destinations, repository, phase)
  if (named.length === 0) return 'host'
  const allows = requestsOf(named, repository)
  return allows('GET', '/info/refs') && allows('POST', '/git-upload-pack') ? 'allowed' : 'repository'
}

/** Whether a list of destinations that allows to clone a repository also allows to push to it. */
export const mayPush = (
  destinations: readonly EgressDestination[],
  repository: GitUrl,
  phase: RunPhase,
): boolean => requestsOf(namedBy(destinations, repository, phase), repository)('POST', '/git-receive-pack')

const namedBy = (
  destinations: readonly EgressDestination[],
  { host, port }: GitUrl,
  phase: RunPhase,
): EgressDestination[] =>
  destinations.filter(
    (one) =>
      one.caller === 'any' &&
      hasHost([one.host], host) &&
      one.ports.includes(port) &&
      one.phases.includes(phase),
  )

const requestsOf =
  (named: readonly EgressDestination[], { path }: GitUrl) =>
  (method: string, end: string): boolean =>
    ['', '.git'].some((suffix) => named.some((one) => allowsRequest(one, method, `/${path}${suffix}${end}`)))

const allowsRequest = ({ requests, methods }: EgressDestination, method: string, path: string): boolean =>
  (requests ?? [{ methods, paths: ['/**'] }]).some(
    (one) =>
      (one.methods === 'any' || one.methods.includes(method)) &&
      one.paths.some((pattern) => matchesSegments(pattern, segmentsOf(path))),
  )
