import { parse } from 'tldts'

/**
 * Domains below which each customer of a provider gets a name, and which Mozilla's public suffix list lacks. A wildcard
 * for such a domain would also allow an attacker's names.
 */
const MULTI_TENANT: Readonly<Record<string, string>> = {
  'vault.azure.net': 'name the vault: <vault>.vault.azure.net, or the placeholder user-token-vault',
  'managedhsm.azure.net': 'name the HSM: <name>.managedhsm.azure.net',
  'openai.azure.com': 'name the resource: <resource>.openai.azure.com, or the placeholder model-host',
  'cognitiveservices.azure.com':
    'name the resource: <resource>.cognitiveservices.azure.com, or the placeholder model-host',
  'services.ai.azure.com':
    'name the resource: <resource>.services.ai.azure.com, or the placeholder model-host',
  'models.ai.azure.com': 'name the deployment: <deployment>.<region>.models.ai.azure.com',
  'azure-api.net': 'name the gateway: <gateway>.azure-api.net',
  'azurecr.io': 'name the registry: <registry>.azurecr.io',
  'azurefd.net': 'name the endpoint: <endpoint>.azurefd.net',
  'azureedge.net': 'name the endpoint: <endpoint>.azureedge.net',
  'trafficmanager.net': 'name the profile: <profile>.trafficmanager.net',
  'search.windows.net': 'name the service: <service>.search.windows.net',
  'servicebus.windows.net': 'name the namespace: <namespace>.servicebus.windows.net',
  'database.windows.net': 'name the server: <server>.database.windows.net',
  'database.azure.com': 'name the server: <server>.postgres.database.azure.com',
  'documents.azure.com': 'name the account: <account>.documents.azure.com',
  'blob.core.windows.net': 'name the account: <account>.blob.core.windows.net',
  'file.core.windows.net': 'name the account: <account>.file.core.windows.net',
  'dfs.core.windows.net': 'name the account: <account>.dfs.core.windows.net',
  'queue.core.windows.net': 'name the account: <account>.queue.core.windows.net',
  'table.core.windows.net': 'name the account: <account>.table.core.windows.net',
  'storage.googleapis.com': 'name the bucket: <bucket>.storage.googleapis.com',
  'r2.cloudflarestorage.com': 'name the account: <account>.r2.cloudflarestorage.com',
  'ngrok.io': 'a tunnel leads anywhere; leave it out',
  'nip.io': 'its names resolve to whatever address they spell; leave it out',
  'sslip.io': 'its names resolve to whatever address they spell; leave it out',
  'xip.io': 'its names resolve to whatever address they spell; leave it out',
  'traefik.me': 'its names resolve to whatever address they spell; leave it out',
}

/**
 * Returns the reason why a name has no single owner and the name to write instead, or undefined if it has one owner.
 */
export function sharedName(name: string): string | undefined {
  const own = Object.hasOwn(MULTI_TENANT, name) ? MULTI_TENANT[name] : undefined
  if (own !== undefined) return `is shared by all customers of its provider; ${own}`
  const { publicSuffix, isIcann, isPrivate } = parse(name, { allowPrivateDomains: true })
  if (publicSuffix !== name || (isIcann !== true && isPrivate !== true)) return undefined
  return isIcann === true
    ? `is a public suffix: anybody can have a name under it; name the host: <host>.${name}`
    : `is shared by all customers of its provider; name the one meant: <name>.${name}`
}

/** Whether some of the names under this one belong to other tenants: it is a provider's, not a customer's. */
export function hasTenantsBelow(name: string): string | undefined {
  return Object.keys(MULTI_TENANT).find((suffix) => suffix.endsWith(`.${name}`))
}

/** Whether the name ends in a suffix that exists on the Internet. */
export function isOnTheInternet(name: string): boolean {
  const { isIcann, isPrivate, isSpecialUse } = parse(name, { allowPrivateDomains: true })
  return (isIcann === true || isPrivate === true) && isSpecialUse !== true
}
