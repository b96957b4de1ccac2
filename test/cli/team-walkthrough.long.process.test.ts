import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { CLI_CLIENT, OIDC_AUDIENCE } from '../fakes/oidc-server.ts'
import { CLI, COMPILE_CACHE } from '../helpers/built-programs.ts'
import { aCompany, TOKENS } from '../runs/own-credentials-rig.ts'
import { startOwnService } from './own-service.ts'
import { aFolder, untilQuiet } from './run-cli.ts'
import { followTeam, startTeamIssuer, TEAM_ROLES } from './team.ts'

test('the day of a team in docs/getting-started.md works as it is written', async () => {
  const issuer = await startTeamIssuer()
  const company = await aCompany({ ceiling: 'network_enabled: true\napprovals: { not_by_owner: true }\n' })
  const folder = await aFolder('aw-team-service-')
  const service = await startOwnService(folder, {
    ...company.settings,
    AGENTWEAVER_OIDC_ISSUER: issuer.issuer,
    AGENTWEAVER_OIDC_AUDIENCE: OIDC_AUDIENCE,
    AGENTWEAVER_OIDC_OWNER_CLAIMS: 'tid,oid',
    AGENTWEAVER_OIDC_ROLES: Object.entries(TEAM_ROLES)
      .map((pair) => pair.join('='))
      .join(','),
    AGENTWEAVER_OIDC_CLIENT_ID: CLI_CLIENT,
    AGENTWEAVER_OIDC_SCOPES: 'openid offline_access api',
    AGENTWEAVER_OIDC_RESOURCE: OIDC_AUDIENCE,
  })
  onTestFinished(async () => {
    await service.stop()
    await untilQuiet(folder)
    await company.close()
    await issuer.close()
  })

  const { outputs, readme, records } = await followTeam({
    ...{ url: service.url, cli: CLI, env: COMPILE_CACHE },
    repository: join(company.repositories, 'team/app.git'),
    tokens: { ada: TOKENS.alice, bob: TOKENS.bob },
  })

  expect(outputs.get('! npx agentweaver approve RUN REQUEST')).toMatch(/another person/i)
  expect(outputs.get('! npx agentweaver show RUN')).toMatch(/There is no run/i)
  expect(outputs.get('npx agentweaver diff RUN')).toContain('+fixed')
  expect(readme).toContain('fixed')
  expect(outputs.get('npx agentweaver audit verify')).toMatch(/intact/)
  expect(records).toContain('#t1/ann')
  expect(records).not.toContain(TOKENS.alice)
  expect([...outputs.values()].join('\n')).not.toContain(TOKENS.alice)
})
