import { isLoopbackUrl } from '../../runtime/client/direct-fetch.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { usageError } from '../cli-error.ts'

/** A value and where it comes from, for people. */
export type Sourced<T> = { readonly value: T; readonly from: string }

/** The origin of a service's URL. A URL that says more than that is refused, without repeating it: it may hold a secret. */
export function originOf({ value, from }: Sourced<string>): string {
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol))
    throw usageError(`The service's address is not an http or https URL (${from}).`)
  if (url.username !== '' || url.password !== '')
    throw usageError(`The URL of the service has a user or a password in it (${from}).`, 'Leave them out.')
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw usageError(`The URL of the service has a path (${from}).`, `Give its origin alone: ${url.origin}`)
  return url.origin
}

/** Refuses to send a key where others can read it on its way. */
export function requireConfidential(origin: string, env: EnvSource): void {
  const url = new URL(origin)
  if (isLoopbackUrl(url)) return
  if (url.protocol !== 'https:')
    throw usageError(
      `An API key is sent to another machine over TLS alone, and ${origin} is not https.`,
      `Give the https URL of the service.`,
    )
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    throw usageError(
      `NODE_TLS_REJECT_UNAUTHORIZED=0 lets any server pass for ${origin}, so no API key is sent there.`,
      'Unset it; name an authority of your own with NODE_EXTRA_CA_CERTS.',
    )
}
