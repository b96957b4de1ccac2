import type { Environment } from '../../../charts-src/environment/schema.ts'
import { TEAM_ROLES } from '../../cli/team.ts'
import { CLI_CLIENT, OIDC_AUDIENCE } from '../../fakes/oidc-server.ts'
import { GIT_PLACE, GIT_REPOSITORY } from './git-outside.ts'
import { COMPANY_PLACE, ISSUER_PLACE } from './git-outside-main.ts'

export const PROXY_ADDRESS = '10.96.0.128'
const SMALL = { cpuMillis: 20, maxCpuMillis: 500, memoryMib: 192, ephemeralMib: 64 }

/**
 * The committed environment with the egress proxy behind the proxy of a company, with sign-in, and with a ceiling that
 * permits network access.
 */
export const withProxy =
  (root: string) =>
  (environment: Environment): Environment => ({
    ...environment,
    egress: {
      mode: 'proxy',
      proxyAddress: PROXY_ADDRESS,
      credentials: [
        { id: 'git', variable: 'GIT_TOKEN' },
        {
          id: 'app',
          variable: 'APP_TOKEN',
          githubApp: {
            ...{ appId: 7, installationId: 42, repository: GIT_REPOSITORY },
            apiUrl: `https://${COMPANY_PLACE.app}`,
          },
        },
      ],
      roots: [root],
      upstreamProxy: { url: `http://${COMPANY_PLACE.address}:${COMPANY_PLACE.port}` },
    },
    models: {
      openaiCompatible: { baseUrl: `https://${GIT_PLACE.host}/v1`, credential: 'git', names: ['fake-model'] },
    },
    ceiling: { network_enabled: true, results: { push: 'allow' }, approvals: { not_by_owner: true } },
    signIn: {
      issuer: `https://${ISSUER_PLACE.host}`,
      audience: OIDC_AUDIENCE,
      ownerClaims: ['tid', 'oid'],
      roles: TEAM_ROLES,
      client: { id: CLI_CLIENT, scopes: ['openid', 'offline_access', 'api'], resource: OIDC_AUDIENCE },
    },
    sizes: {
      ...environment.sizes,
      egressProxy: {
        replicas: 2,
        maxReplicas: 2,
        cpuTargetPercent: 70,
        container: SMALL,
        credentials: SMALL,
      },
    },
  })
