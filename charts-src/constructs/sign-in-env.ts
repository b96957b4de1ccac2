import type { ApiEnv } from '../../contracts/api-env.ts'
import type { SignIn } from '../environment/sign-in.ts'

type Env = Partial<Record<keyof ApiEnv, string>>

/** How the API verifies access tokens, and the sign-in settings that it returns to the command line. */
export function signInEnv(signIn: SignIn | undefined): Env {
  if (signIn === undefined) return {}
  const { issuer, audience, ownerClaims, rolesClaim, roles, client } = signIn
  const pairs = Object.entries(roles).map(([value, role]) => `${value}=${role}`)
  return {
    AGENTWEAVER_OIDC_ISSUER: issuer,
    AGENTWEAVER_OIDC_AUDIENCE: audience,
    AGENTWEAVER_OIDC_ROLES: pairs.join(','),
    ...(ownerClaims && { AGENTWEAVER_OIDC_OWNER_CLAIMS: ownerClaims.join(',') }),
    ...(rolesClaim !== undefined && { AGENTWEAVER_OIDC_ROLES_CLAIM: rolesClaim }),
    ...clientEnv(client),
  }
}

function clientEnv(client: SignIn['client']): Env {
  if (client === undefined) return {}
  const { id, scopes, resource, deviceCode } = client
  return {
    AGENTWEAVER_OIDC_CLIENT_ID: id,
    ...(scopes && { AGENTWEAVER_OIDC_SCOPES: scopes.join(' ') }),
    ...(resource !== undefined && { AGENTWEAVER_OIDC_RESOURCE: resource }),
    ...(deviceCode !== undefined && { AGENTWEAVER_OIDC_DEVICE_CODE: String(deviceCode) }),
  }
}
