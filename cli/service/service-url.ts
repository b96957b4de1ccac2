import { isLoopbackUrl } from '../../runtime/client/direct-fetch.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { usageError } from '../cli-error.ts'

/** A value and its source, for messages. */
export type Sourced<T> = { readonly value: T; readonly from: string }

/** The origin of a service URL. The error never repeats a rejected URL, because it may contain a secret. */
export function originOf({ value, from }: Sourced<string>): string {
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol))
    throw usageError(`The service's address is not an http or https URL (${from}).`)
  if (url.username !== '' || url.password !== '')
    throw usageError(`The URL of the service contains a user or a password (${from}).`, 'Leave them out.')
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw usageError(`The URL of the service has a path (${from}).`, `Give only its origin: ${url.origin}`)
  return url.origin
}

/** Throws if a key or a token would be sent unencrypted to another machine. */
export function requireConfidential(origin: string, env: EnvSource): void {
  const url = new URL(origin)
  if (isLoopbackUrl(url)) return
  if (url.protocol !== 'https:')
    throw usageError(
      `An API key or a token is sent to another machine only over TLS, and ${origin} is not https.`,
      'Give its https URL.',
    )
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    throw usageError(
      `With NODE_TLS_REJECT_UNAUTHORIZED=0, any server could pose as ${origin}, so no API key and no token is sent there.`,
      'Unset it. For a private certificate authority, set NODE_EXTRA_CA_CERTS.',
    )
}
