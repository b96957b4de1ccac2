import type { OidcClient } from '../../contracts/sign-in.ts'
import { isLoopbackUrl } from '../../runtime/client/direct-fetch.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { SavedTokens } from '../service/logins.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { visible } from '../terminal/visible.ts'
import { type Issuer, issuerError, openIssuer, resourceOf, scopeOf, toSavedTokens } from './issuer.ts'
import { openBrowser } from './open-browser.ts'
import { listenForRedirect } from './redirect-listener.ts'

/** A person who has not finished by then has left. */
const WAIT_MS = 900_000
const WAIT_WORDS = '15 minutes'

type Options = {
  readonly client: OidcClient
  /** With a code that the person types on any device, instead of a browser on this machine. */
  readonly isDevice: boolean
  readonly mayOpenBrowser: boolean
  readonly signal: AbortSignal
}

/** Signs a person in at the issuer. */
export async function signIn(terminal: Terminal, options: Options): Promise<SavedTokens> {
  const issuer = await openIssuer(options.client, terminal.io.env)
  const late = AbortSignal.timeout(WAIT_MS)
  const bounded = { ...options, signal: AbortSignal.any([options.signal, late]) }
  try {
    return await (options.isDevice
      ? signInWithDevice(terminal, issuer, bounded)
      : signInWithBrowser(terminal, issuer, bounded))
  } catch (error) {
    options.signal.throwIfAborted()
    if (late.aborted)
      throw new CliError(`Nobody signed in within ${WAIT_WORDS}.`, {
        status: EXIT.unauthenticated,
        cause: error,
      })
    throw issuerError(`${options.client.issuer} did not sign you in`, error)
  }
}

/** Authorization code with PKCE; the response arrives on the loopback interface. */
async function signInWithBrowser(
  terminal: Terminal,
  { library, configuration, client }: Issuer,
  { mayOpenBrowser, signal }: Options,
): Promise<SavedTokens> {
  const [verifier, state, nonce] = [
    library.randomPKCECodeVerifier(),
    library.randomState(),
    library.randomNonce(),
  ]
  await using redirect = await listenForRedirect(state)
  const page = library.buildAuthorizationUrl(configuration, {
    ...scopeOf(client),
    redirect_uri: redirect.uri,
    code_challenge: await library.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    nonce,
  })
  requireSafePage(page, client)
  terminal.note([`Sign in at ${client.issuer} with a browser on this machine:`, page.href])
  if (mayOpenBrowser) openBrowser(page, terminal.io.env)
  const response = await Promise.race([redirect.response, aborted(signal)])
  const answer = await library
    .authorizationCodeGrant(
      configuration,
      response,
      { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce },
      resourceOf(client),
    )
    .catch((error: unknown) => {
      const isSecret = !response.searchParams.has('error')
      throw issuerError(`${client.issuer} did not sign you in`, error, { isSecret })
    })
  return toSavedTokens(client, answer)
}

/** Device code (RFC 8628), for a machine without a browser. */
async function signInWithDevice(
  terminal: Terminal,
  { library, configuration, client }: Issuer,
  { signal }: Options,
): Promise<SavedTokens> {
  if (configuration.serverMetadata().device_authorization_endpoint === undefined)
    throw new CliError(`The issuer ${client.issuer} has no sign-in with a device code.`, {
      status: EXIT.refused,
      hint: 'Leave out --device.',
    })
  const device = await library.initiateDeviceAuthorization(configuration, scopeOf(client))
  const page = new URL(device.verification_uri)
  requireSafePage(page, client)
  terminal.note([
    `Open ${page.href} on any device, and enter the code ${visible(device.user_code)}`,
    'Enter a code only if you started this command yourself.',
  ])
  const answer = await library.pollDeviceAuthorizationGrant(configuration, device, resourceOf(client), {
    signal,
  })
  return toSavedTokens(client, answer)
}

/** The page is opened in a browser and printed, so it must be a web page with TLS. */
function requireSafePage({ protocol, href }: URL, { issuer }: OidcClient): void {
  if (protocol === 'https:' || (protocol === 'http:' && isLoopbackUrl(new URL(href)))) return
  throw new CliError(`The issuer ${issuer} names a page without TLS for its sign-in.`, {
    status: EXIT.refused,
  })
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
