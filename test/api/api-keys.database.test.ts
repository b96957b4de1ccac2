import { describe, expect, it, onTestFinished } from 'vitest'
import type { CreatedApiKey } from '../../contracts/api-keys.ts'
import { generateApiKey, hashApiKey } from '../../runtime/api/http/api-key.ts'
import { loadDeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { createKeyService } from '../../runtime/api/people/api-keys.ts'
import { createAuditTrail } from '../../runtime/api/runs/audit-trail.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { bearer, startApp } from './harness.ts'
import { makeStateDir } from './service-process.ts'

const postgres = await requestPostgres()
const reason = 'unavailable' in postgres ? postgres.unavailable : undefined

/** Two replicas with one database, and an operator's key. */
async function twoReplicas() {
  if (!('url' in postgres)) throw new Error('no PostgreSQL')
  const url = await createDatabase(postgres.url)
  const audit = createAuditTrail(await loadDeploymentKeys(await makeStateDir()))
  const replica = async () => {
    const store = await openStore({ kind: 'postgres', url }, { log: silentLog })
    onTestFinished(() => store.close())
    const now = () => new Date()
    const keys = createKeyService({ store, audit, now })
    const { app } = startApp({ store, keys, now })
    const send = (
      method: 'GET' | 'POST' | 'DELETE',
      path: string,
      { key, body }: { key: string; body?: object },
    ) => app.inject({ method, url: path, headers: bearer(key), ...(body && { body }) })
    return { store, send }
  }
  const [one, two] = [await replica(), await replica()]
  const operator = generateApiKey()
  const createdAt = new Date().toISOString()
  await one.store.transaction((tx) =>
    tx.insertApiKey({
      id: 'key_first',
      hash: hashApiKey(operator),
      owner: 'local',
      role: 'operator',
      createdAt,
    }),
  )
  const create = async (key: string, body: object): Promise<CreatedApiKey> =>
    (await one.send('POST', '/api/keys', { key, body })).json()
  return { one, two, operator, create }
}

describe.skipIf(reason !== undefined)(
  `API keys of two replicas${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    it('are valid and revoked in both at once, and the audit names who did it', async () => {
      const { one, two, operator, create } = await twoReplicas()
      const { id, key } = await create(operator, { name: 'ci', owner: 'ada' })
      const before = await two.send('GET', '/api/runs', { key })

      const revoked = await one.send('DELETE', `/api/keys/${id}`, { key: operator })
      const after = await two.send('GET', '/api/runs', { key })

      expect([before.statusCode, revoked.statusCode, after.statusCode]).toEqual([200, 200, 401])
      const { items } = await two.store.readAudit({ limit: 10, runId: '' })
      const records = items.map(({ record }) => JSON.parse(record))
      expect(records).toMatchObject([
        { kind: 'key.created', callId: id, actor: 'person:local' },
        { kind: 'key.revoked', callId: id, actor: 'person:local' },
      ])
      expect(records[0].reasons).toEqual(
        expect.arrayContaining(['role user', 'owner ada', 'created with key_first']),
      )
      expect(records[1].reasons).toContain('revoked with key_first')
      expect(JSON.stringify(items)).not.toContain(key)
    })

    it('cannot revoke each other at the same time', async () => {
      const { one, two, operator, create } = await twoReplicas()
      for (let round = 0; round < 5; round++) {
        const a = await create(operator, { name: 'a', role: 'operator' })
        const b = await create(operator, { name: 'b', role: 'operator' })

        const answers = await Promise.all([
          one.send('DELETE', `/api/keys/${b.id}`, { key: a.key }),
          two.send('DELETE', `/api/keys/${a.id}`, { key: b.key }),
        ])

        expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([200, 401])
      }
    })

    it('create nothing once they are revoked, also in a request that began before', async () => {
      const { one, two, operator, create } = await twoReplicas()
      for (let round = 0; round < 5; round++) {
        const leaked = await create(operator, { name: 'leaked', role: 'operator' })

        const [revoked, planted] = await Promise.all([
          one.send('DELETE', `/api/keys/${leaked.id}`, { key: operator }),
          two.send('POST', '/api/keys', { key: leaked.key, body: { name: 'planted', role: 'operator' } }),
        ])

        // If the key was planted first, the revocation lists it.
        const known = revoked.json().stillActive
        expect(planted.statusCode === 201 ? [planted.json().id] : []).toEqual(known)
      }
    })
  },
)
