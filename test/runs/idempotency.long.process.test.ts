import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { type AppOptions, buildApp } from '../../runtime/api/app.ts'
import { generateApiKey, hashApiKey } from '../../runtime/api/http/api-key.ts'
import { createKeyService } from '../../runtime/api/people/api-keys.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'
import { alice, aRun, follow, shell, useService } from './service-rig.ts'

const use = useService()

/** The routes with the real service and its store. `overrides` simulate the missing writes of a process that dies. */
async function routes(overrides: Partial<AppOptions['store']> = {}) {
  const { service, store } = use()
  const apiKey = generateApiKey()
  const row = { id: randomUUID(), hash: hashApiKey(apiKey), owner: alice.owner, role: 'user' } as const
  const createdAt = new Date().toISOString()
  await store.transaction((tx) => tx.insertApiKey({ ...row, createdAt }))
  const app = buildApp({
    // The service outlives each of these apps.
    service: { ...service, close: async () => undefined },
    store: {
      readApiKey: (hash) => store.readApiKey(hash),
      noteApiKeyUse: (id, at) => store.noteApiKeyUse(id, at),
      listUnusableApiKeys: (ids, now) => store.listUnusableApiKeys(ids, now),
      readIdempotencyKey: (key, now) => store.readIdempotencyKey(key, now),
      writeIdempotencyKey: (kept) => store.writeIdempotencyKey(kept),
      ...overrides,
    },
    userCredentials: ownCredentials({ store }).service,
    keys: createKeyService({ store, audit: { append: async () => undefined }, now: () => new Date() }),
    log: silentLog,
    now: () => new Date(),
    started: Promise.resolve(),
    rateLimitPerMinute: 10_000,
    streams: { perKey: 100, inAll: 100 },
    allowedHosts: ['localhost:80'],
  })
  onTestFinished(() => app.close())
  return (url: string, key: string, body: object) =>
    app.inject({
      method: 'POST',
      url,
      headers: { authorization: `Bearer ${apiKey}`, 'idempotency-key': key },
      body,
    })
}

/** The process dies after the transaction and before it stores the final response. */
const diesBeforeItAnswers = { writeIdempotencyKey: () => Promise.reject(new Error('the process died')) }

const runsAt = async (path: string) => {
  const { items } = await use().service.listRuns(alice, { kind: 'agent', limit: 100 })
  return items.filter(({ workspace }) => workspace.kind === 'path' && workspace.path === path)
}

it('starts one fork for requests with one key, also if the process dies before it responds', async () => {
  const { service } = use()
  const source = await service.startRun(alice, aRun('', [], { workspace: { kind: 'empty' } }))
  await follow(service, source.id)
  const url = `/api/runs/${source.id}/fork`
  const dying = await routes(diesBeforeItAnswers)
  const post = await routes()

  await dying(url, 'fork', { task: 'again' })
  const answers = await Promise.all(Array.from({ length: 5 }, () => post(url, 'fork', { task: 'again' })))
  const other = await post(url, 'fork', { task: 'another' })

  const { items } = await service.listRuns(alice, { kind: 'agent', limit: 100 })
  const forks = items.filter((run) => run.source?.runId === source.id)
  expect(forks).toHaveLength(1)
  expect(answers.map((answer) => answer.json())).toMatchObject(
    answers.map(() => ({ id: forks[0]?.id, source: { runId: source.id } })),
  )
  expect(other.json()).toMatchObject({ code: 'idempotency_mismatch' })
  await service.cancel(alice, forks[0]?.id ?? '')
})

it('starts one run for ten requests with one key that come at once', async () => {
  const post = await routes()
  const path = use().aWorkspace()

  const answers = await Promise.all(
    Array.from({ length: 10 }, () => post('/api/runs', 'race', aRun(path, [shell('true')]))),
  )

  expect(answers.map(({ statusCode }) => statusCode)).toEqual(answers.map(() => 202))
  expect(new Set(answers.map((answer) => answer.json().id)).size).toBe(1)
  expect(await runsAt(path)).toHaveLength(1)
})

it('returns the run that was started when the request is repeated after a crash', async () => {
  const path = use().aWorkspace()
  const first = await routes(diesBeforeItAnswers)
  const started = await first('/api/runs', 'crash', aRun(path, [shell('true')]))

  const second = await routes()
  const repeated = await second('/api/runs', 'crash', aRun(path, [shell('true')]))

  expect(repeated.statusCode).toBe(202)
  expect(repeated.headers['idempotent-replayed']).toBe('true')
  expect(repeated.json().id).toBe(started.json().id)
  expect(await runsAt(path)).toHaveLength(1)
})

it('does the work of a request whose transaction failed when it is repeated', async () => {
  const { service, store } = use()
  const path = use().aWorkspace()
  const { transaction } = store
  const first = await routes()
  Object.assign(store, { transaction: () => Promise.reject(new Error('the disk is full')) })
  const failed = await first('/api/runs', 'full', aRun(path, [shell('true')]))
  Object.assign(store, { transaction })

  const repeated = await first('/api/runs', 'full', aRun(path, [shell('true')]))

  expect([failed.statusCode, repeated.statusCode]).toEqual([500, 202])
  expect(repeated.headers['idempotent-replayed']).toBeUndefined()
  await follow(service, repeated.json().id)
})

it('returns the first decision when it is repeated, even after a crash', async () => {
  const { service } = use()
  const { id } = await service.startRun(alice, aRun(use().aWorkspace(), [shell('rm -rf build')]))
  const statuses: number[] = []

  await follow(service, id, async (event) => {
    if (event.type !== 'shell.approval_required') return
    const { requestId } = event.data
    for (const post of [await routes(diesBeforeItAnswers), await routes()]) {
      const answer = await post(`/api/runs/${id}/shell-approvals`, 'decide', { requestId, scope: 'once' })
      statuses.push(answer.statusCode)
      expect(answer.json()).toMatchObject({ requestId, state: 'approved', decidedBy: 'alice' })
    }
  })

  expect(statuses).toEqual([200, 200])
})
