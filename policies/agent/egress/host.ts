import { isIP } from 'node:net'
import { MAX_NAME_LENGTH, parseHostName } from './host-name.ts'
import { hasTenantsBelow, hasTenantsInPaths, isOnTheInternet, sharedName } from './multi-tenant.ts'

/** An entry must have the spelling to which the proxy converts every name. */
const isSpelledAsName = (name: string) => {
  const parsed = parseHostName(name)
  return parsed.kind === 'name' && parsed.name === name
}

/** Suffixes that are only used inside a machine, a cluster or a private network. */
const INTERNAL =
  /\.(?:local|localhost|internal|intranet|lan|home|corp|private|arpa|test|example|invalid|onion|svc)$/

/**
 * Returns the reason why a host is not allowed, with a safe spelling, or undefined if it is allowed. `paths` are the only
 * paths that may be requested.
 */
export function hostFault(host: string, paths?: readonly string[]): string | undefined {
  const isWildcard = host.startsWith('*')
  if (host === '*') return '"*" matches every name; list the required hosts'
  const name = isWildcard ? host.slice(2) : host
  if (isWildcard && !host.startsWith('*.'))
    return `"${host}" matches parts of a label; write "*." and the name, or list the hosts`
  if (paths && hasTenantsInPaths(host))
    return paths.some(isOpenPath) ? `"${host}": each path must start with the name of a bucket` : undefined
  return spellingFault(host, name) ?? ownerFault(host, name, isWildcard)
}

const isOpenPath = (path: string) => !/^\/[a-z0-9._-]+\//.test(path)

function spellingFault(host: string, name: string): string | undefined {
  if (name.includes('*')) return `"${host}" has more than one "*"; only the whole first label may be one`
  if (isIP(name) !== 0)
    return `"${host}" is an address; use the host name, so that the rule stays valid if the address changes`
  if (name !== name.toLowerCase()) return `"${host}" must be in lower case: "${host.toLowerCase()}"`
  if (name.endsWith('.')) return `"${host}" must not end in a dot: "${host.slice(0, -1)}"`
  if (name.length <= MAX_NAME_LENGTH && !name.includes('.')) return loneLabel(host, name)
  return isSpelledAsName(name) ? undefined : `"${host}" is not a full host name`
}

/** A top-level domain such as `*.com` gets a specific message, because it looks like the domain of one owner. */
function loneLabel(host: string, name: string): string {
  const reason = sharedName(name)
  return reason === undefined ? `"${host}" is not a full host name` : `"${host}": ${name} ${reason}`
}

function ownerFault(host: string, name: string, isWildcard: boolean): string | undefined {
  if (INTERNAL.test(`.${name}`)) return `"${host}" is an internal name; sandboxes can reach only the internet`
  if (!isOnTheInternet(name)) return `"${host}" ends in a suffix that does not exist on the internet`
  const shared = sharedName(name)
  if (shared !== undefined) return `"${host}": ${name} ${shared}`
  const tenants = isWildcard ? hasTenantsBelow(name) : undefined
  return tenants === undefined
    ? undefined
    : `"${host}": ${name} belongs to a provider and has other tenants below ${tenants}; list the required hosts`
}
