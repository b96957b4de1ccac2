import type { EnvSource } from '../../runtime/kit/parse-env.ts'
import { readLogin, removeLogin, type SavedTokens } from '../service/logins.ts'
import { openIssuer } from './issuer.ts'
import { lockLogin } from './login-lock.ts'

/**
 * `key`: the saved key is deleted. `revoked`: the tokens are deleted here, and the issuer revoked the refresh token. `kept`: the
 * tokens are deleted here, and the issuer could not be asked, or has no way to revoke them.
 */
export type SignedOut = 'nothing' | 'key' | 'revoked' | 'kept'

type Place = { readonly configDir: string; readonly origin: string; readonly env: EnvSource }

export async function signOut({ configDir, origin, env }: Place): Promise<SignedOut> {
  const found = readLogin(configDir, origin)
  if (found === undefined) return 'nothing'
  if (found.kind === 'key') {
    removeLogin(configDir, origin)
    return 'key'
  }
  // A process that renews the tokens would save them again.
  using _lock = await lockLogin(configDir, origin)
  const login = readLogin(configDir, origin)
  removeLogin(configDir, origin)
  const isRevoked = login?.kind === 'tokens' && (await revokeTokens(login.tokens, env))
  return isRevoked ? 'revoked' : 'kept'
}

/** False if the issuer could not be asked, or has no way to revoke tokens. */
export async function revokeTokens({ client, refreshToken }: SavedTokens, env: EnvSource): Promise<boolean> {
  if (refreshToken === undefined) return false
  try {
    const { library, configuration } = await openIssuer(client, env)
    if (configuration.serverMetadata().revocation_endpoint === undefined) return false
    await library.tokenRevocation(configuration, refreshToken, { token_type_hint: 'refresh_token' })
    return true
  } catch {
    // The issuer is down or refuses. The command reports that the tokens stay valid there.
    return false
  }
}
