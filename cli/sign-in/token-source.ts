import type { TokenSource } from '../../runtime/client/transport.ts'
import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { loginCommandFor, readLogin, type SavedTokens, writeLogin } from '../service/logins.ts'
import { issuerCode, issuerError, openIssuer, resourceOf, toSavedTokens } from './issuer.ts'
import { lockLogin } from './login-lock.ts'

/** A token that expires sooner is renewed first, so that it is still valid when the service reads it. */
const EARLY_MS = 60_000

type Place = { readonly configDir: string; readonly origin: string; readonly env: EnvSource }

/** The access tokens of a saved sign-in. Renewed tokens are saved, for this process and all others. */
export function createTokenSource(place: Place, saved: SavedTokens): TokenSource {
  let tokens = saved
  let renewing: Promise<SavedTokens | undefined> | undefined
  const renewOnce = async (refused: string): Promise<string | undefined> => {
    renewing ??= renew(place, refused).finally(() => {
      renewing = undefined
    })
    const renewed = await renewing
    tokens = renewed ?? tokens
    return renewed?.accessToken
  }
  return {
    async current() {
      if (isOld(tokens)) await renewOnce(tokens.accessToken)
      return tokens.accessToken
    },
    renew: renewOnce,
  }
}

const isOld = ({ expiresAt }: SavedTokens): boolean =>
  expiresAt !== undefined && Date.parse(expiresAt) - EARLY_MS < Date.now()

async function renew(place: Place, refused: string): Promise<SavedTokens | undefined> {
  const { configDir, origin } = place
  using _lock = await lockLogin(configDir, origin)
  const login = readLogin(configDir, origin)
  if (login?.kind !== 'tokens') throw signInAgain(origin, `You are signed out of ${origin}.`)
  // Another process has renewed them since this one read them.
  if (login.tokens.accessToken !== refused && !isOld(login.tokens)) return login.tokens
  // The service refused a token that has not expired, and its own reason is better.
  if (login.tokens.refreshToken === undefined && !isOld(login.tokens)) return undefined
  const renewed = await requestTokens(login.tokens, place)
  await writeLogin(configDir, origin, { kind: 'tokens', tokens: renewed })
  return renewed
}

async function requestTokens(tokens: SavedTokens, { origin, env }: Place): Promise<SavedTokens> {
  const { client, refreshToken } = tokens
  if (refreshToken === undefined)
    throw signInAgain(
      origin,
      `Your sign-in at ${origin} has expired, and ${client.issuer} gave no refresh token.`,
    )
  const { library, configuration } = await openIssuer(client, env)
  try {
    // Without scopes: the issuer may have granted fewer than were requested, and refuses to renew for more.
    const answer = await library.refreshTokenGrant(configuration, refreshToken, resourceOf(client))
    // An issuer that does not rotate refresh tokens sends no new one.
    return { refreshToken, ...toSavedTokens(client, answer) }
  } catch (error) {
    if (issuerCode(error) === 'invalid_grant')
      throw signInAgain(
        origin,
        `Your sign-in at ${origin} has ended: ${client.issuer} does not accept the refresh token any more.`,
      )
    throw issuerError(`${client.issuer} did not renew your access token`, error, { isSecret: true })
  }
}

const signInAgain = (origin: string, message: string): CliError =>
  new CliError(message, {
    status: EXIT.unauthenticated,
    hint: `Sign in again: ${loginCommandFor(origin)}`,
  })
