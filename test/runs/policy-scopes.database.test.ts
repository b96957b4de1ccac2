import { describe, expect, it, onTestFinished } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createSandboxPolicy } from '../../runtime/api/runs/admit/sandbox-policy.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { makeStateDir } from '../api/service-process.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'

const postgres = await requestPostgres()
const reason = 'unavailable' in postgres ? postgres.unavailable : undefined

const OPERATOR = { owner: 'root', role: 'operator' } as const
const REPOSITORY = 'https://git.example.com/team/app'

async function policiesOfReplicas(count: number) {
  if (!('url' in postgres)) throw new Error('no PostgreSQL')
  const url = await createDatabase(postgres.url)
  const audit = createAuditTrail(await loadDeploymentKeys(await makeStateDir()))
  return Promise.all(
    Array.from({ length: count }, async () => {
      const store = await openStore({ kind: 'postgres', url }, { log: silentLog })
      onTestFinished(() => store.close())
      const ceiling = SandboxSettings.parse({ network_enabled: true, max_output_bytes: 4_194_304 })
      return createSandboxPolicy(
        { store, ceiling, clock: () => new Date(), governance: { version: () => 'v' } },
        audit,
      )
    }),
  )
}

describe.skipIf(reason !== undefined)(
  `policies in PostgreSQL${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    it('keep the changes of three replicas at once', async () => {
      const policies = await policiesOfReplicas(3)
      const patches = [{ network_enabled: false }, { redact_pii: true }, { max_output_bytes: 2_097_152 }]

      await Promise.all(
        policies.map((policy, index) =>
          policy.merge(OPERATOR, patches[index] ?? {}, { repository: REPOSITORY }),
        ),
      )

      expect(await policies[0]?.read(OPERATOR, { repository: REPOSITORY })).toMatchObject(
        Object.assign({}, ...patches),
      )
    })
  },
)
