import type { Configuration, CustomFetch, TokenEndpointResponse } from 'openid-client'
import type { OidcClient } from '../../contracts/sign-in.ts'
import { directFetch, isLoopbackUrl } from '../../runtime/client/direct-fetch.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { SavedTokens } from '../service/logins.ts'
import { requireConfidential } from '../service/service-url.ts'

const TIMEOUT_SECONDS = 30
const MAX_DESCRIPTION = 400

/** The library is loaded with the first use, because most commands do not need it. */
const loadLibrary = () => import('openid-client')

export type Issuer = {
  readonly library: Awaited<ReturnType<typeof loadLibrary>>
  readonly configuration: Configuration
  readonly client: OidcClient
}

/** Reads the discovery document of the issuer. It must name this issuer, and every endpoint must have TLS or be on this machine. */
export async function openIssuer(client: OidcClient, env: EnvSource): Promise<Issuer> {
  const { issuer, clientId } = client
  const url = new URL(issuer)
  requireConfidential(url.origin, env)
  const library = await loadLibrary()
  const isLoopback = isLoopbackUrl(url)
  try {
    const configuration = await library.discovery(url, clientId, undefined, library.None(), {
      timeout: TIMEOUT_SECONDS,
      ...(isLoopback && { [library.customFetch]: loopbackFetch(env) }),
      // Only the loopback addresses pass the check in `loopbackFetch`.
      execute: isLoopback ? [library.allowInsecureRequests] : [],
    })
    return { library, configuration, client }
  } catch (error) {
    throw issuerError(`The issuer ${issuer} cannot be used`, error)
  }
}

/** Without the proxy of the environment, which could read unencrypted tokens. */
function loopbackFetch(env: EnvSource): CustomFetch {
  const direct = directFetch()
  return async (address, { body, signal, ...options }) => {
    const url = new URL(address)
    requireConfidential(url.origin, env)
    const init = { ...options, ...(body != null && { body }), ...(signal && { signal }) }
    return isLoopbackUrl(url) ? direct(url, init) : globalThis.fetch(url, init)
  }
}

export const resourceOf = ({ resource }: OidcClient): Record<string, string> =>
  resource === undefined ? {} : { resource }

/** Parameters of the request that begins a sign-in. */
export const scopeOf = (client: OidcClient): Record<string, string> => ({
  scope: client.scopes.join(' '),
  ...resourceOf(client),
})

export function toSavedTokens(client: OidcClient, answer: TokenEndpointResponse): SavedTokens {
  const { access_token: accessToken, refresh_token: refreshToken, expires_in: seconds } = answer
  const expiresAt =
    seconds === undefined ? undefined : new Date(Date.now() + Number(seconds) * 1000).toISOString()
  return {
    client,
    accessToken,
    ...(expiresAt !== undefined && { expiresAt }),
    ...(refreshToken !== undefined && { refreshToken }),
  }
}

type Problem = {
  readonly code?: unknown
  readonly error?: unknown
  readonly error_description?: unknown
  readonly message?: unknown
  readonly cause?: unknown
}

/** The error code of the issuer, such as `invalid_grant`. */
export const issuerCode = (error: unknown): string | undefined => {
  const { error: code } = error as Problem
  return typeof code === 'string' ? code : undefined
}

/** An error of a request to the issuer. Its words contain no token: the issuer never saw one, or only its code is kept. */
export function issuerError(what: string, error: unknown, { isSecret = false } = {}): CliError {
  if (error instanceof CliError) return error
  const code = issuerCode(error)
  const status =
    code !== undefined ? EXIT.unauthenticated : isAnswered(error) ? EXIT.refused : EXIT.unreachable
  return new CliError(`${what}: ${isSecret && code !== undefined ? code : wordsOf(error)}.`, { status })
}

/** The issuer has answered, and the answer is not accepted: a wrong nonce, signature or issuer. */
function isAnswered(error: unknown): boolean {
  const { code } = error as Problem
  return typeof code === 'string' && /^OAUTH_(?!TIMEOUT|ABORT)/.test(code)
}

function wordsOf(error: unknown): string {
  const { error: code, error_description: description, message, cause } = error as Problem
  if (typeof code === 'string')
    return typeof description === 'string' ? `${code} (${description.slice(0, MAX_DESCRIPTION)})` : code
  const inner = cause instanceof Error ? cause.message : undefined
  return [message, inner].filter((text) => typeof text === 'string' && text !== '').join(': ')
}
