import { parse } from 'tldts'

/**
 * Domains below which each customer of a provider gets a name, and which Mozilla's public suffix list lacks. A wildcard
 * for such a domain would also allow an attacker's names.
 */
const MULTI_TENANT: Readonly<Record<string, string>> = {
  'vault.azure.net':
    'use the name of your vault: <vault>.vault.azure.net, or the placeholder user-token-vault',
  'managedhsm.azure.net': 'use the name of your HSM: <name>.managedhsm.azure.net',
  'openai.azure.com':
    'use the name of your resource: <resource>.openai.azure.com, or the placeholder model-host',
  'cognitiveservices.azure.com':
    'use the name of your resource: <resource>.cognitiveservices.azure.com, or the placeholder model-host',
  'services.ai.azure.com':
    'use the name of your resource: <resource>.services.ai.azure.com, or the placeholder model-host',
  'models.ai.azure.com': 'use the name of your deployment: <deployment>.<region>.models.ai.azure.com',
  'azure-api.net': 'use the name of your gateway: <gateway>.azure-api.net',
  'azurecr.io': 'use the name of your registry: <registry>.azurecr.io',
  'azurefd.net': 'use the name of your endpoint: <endpoint>.azurefd.net',
  'azureedge.net': 'use the name of your endpoint: <endpoint>.azureedge.net',
  'trafficmanager.net': 'use the name of your profile: <profile>.trafficmanager.net',
  'search.windows.net': 'use the name of your service: <service>.search.windows.net',
  'servicebus.windows.net': 'use the name of your namespace: <namespace>.servicebus.windows.net',
  'database.windows.net': 'use the name of your server: <server>.database.windows.net',
  'database.azure.com': 'use the name of your server: <server>.postgres.database.azure.com',
  'documents.azure.com': 'use the name of your account: <account>.documents.azure.com',
  'blob.core.windows.net': 'use the name of your account: <account>.blob.core.windows.net',
  'file.core.windows.net': 'use the name of your account: <account>.file.core.windows.net',
  'dfs.core.windows.net': 'use the name of your account: <account>.dfs.core.windows.net',
  'queue.core.windows.net': 'use the name of your account: <account>.queue.core.windows.net',
  'table.core.windows.net': 'use the name of your account: <account>.table.core.windows.net',
  'storage.googleapis.com':
    'use the name of your bucket: <bucket>.storage.googleapis.com, or list paths that start with it',
  'r2.cloudflarestorage.com': 'use the name of your account: <account>.r2.cloudflarestorage.com',
  'ngrok.io': 'a tunnel can lead to any host; remove it',
  'nip.io': 'its names resolve to any address that they contain; remove it',
  'sslip.io': 'its names resolve to any address that they contain; remove it',
  'xip.io': 'its names resolve to any address that they contain; remove it',
  'traefik.me': 'its names resolve to any address that they contain; remove it',
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
    ? `is a public suffix, under which anyone can register a name; use the host: <host>.${name}`
    : `is shared by all customers of its provider; use one tenant's name: <name>.${name}`
}

/** Whether the first segment of a path names the tenant. An entry that lists paths has then one owner. */
export const hasTenantsInPaths = (name: string): boolean => name === 'storage.googleapis.com'

/** Returns a domain below this name under which tenants have names, or undefined if the name has none. */
export function hasTenantsBelow(name: string): string | undefined {
  return Object.keys(MULTI_TENANT).find((suffix) => suffix.endsWith(`.${name}`))
}

/** Whether the name ends in a suffix that exists on the Internet. */
export function isOnTheInternet(name: string): boolean {
  const { isIcann, isPrivate, isSpecialUse } = parse(name, { allowPrivateDomains: true })
  return (isIcann === true || isPrivate === true) && isSpecialUse !== true
}
