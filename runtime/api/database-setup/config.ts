import { API_ENV_PREFIX } from '../../../contracts/api-env.ts'
import { DATABASE_SETUP_SHARED_KEYS, DatabaseSetupEnv } from '../../../contracts/database-setup-env.ts'
import { type EnvSource, parseEnv } from '../../kit/parse-env.ts'

/** Parses the program's environment. Throws `invalid_config` with all problems. */
export function readSetupConfig(source: EnvSource) {
  const env = parseEnv(DatabaseSetupEnv, source, {
    prefix: API_ENV_PREFIX,
    also: [...DATABASE_SETUP_SHARED_KEYS],
  })
  return {
    url: env.DATABASE_URL,
    login: {
      database: env.AGENTWEAVER_DATABASE_NAME,
      role: env.AGENTWEAVER_DATABASE_ROLE,
      objectId: env.AGENTWEAVER_DATABASE_ROLE_OBJECT_ID,
    },
    identity: {
      authority: new URL(env.AZURE_AUTHORITY_HOST).origin,
      clientId: env.AZURE_CLIENT_ID,
      tokenFile: env.AZURE_FEDERATED_TOKEN_FILE,
      tenantId: env.AZURE_TENANT_ID,
    },
  } as const
}
