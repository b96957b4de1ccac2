import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { ApiRole } from '../../contracts/api-keys.ts'
import { buildApp } from '../../runtime/api/app.ts'
import { generateApiKey, hashApiKey } from '../../runtime/api/http/api-key.ts'
import { createKeyService } from '../../runtime/api/people/api-keys.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'
import { operator, useService } from '../runs/service-rig.ts'
import { bearer } from './harness.ts'
import { sampleOf } from './sample-requests.ts'

const ROLES = ['user', 'auditor', 'approver', 'operator'] as const satisfies readonly ApiRole[]

/**
 * What each role gets: `y` permitted, `h` hidden (404, as if the run did not exist), `f` forbidden (403). One letter per role
 * in the order of `ROLES`. First for the objects of another owner, then for the caller's own ones.
 */
const TABLE: Readonly<Record<string, readonly [others: string, own: string]>> = {
  'GET /api/runs': ['yyyy', 'yyyy'],
  'POST /api/runs': ['yfyy', 'yfyy'],
  'GET /api/runs/:id': ['hyyy', 'yyyy'],
  'GET /api/runs/:id/egress': ['hyyy', 'yyyy'],
  'POST /api/runs/:id/egress/allowed-hosts': ['hffy', 'yfyy'],
  'POST /api/runs/:id/turns': ['hffy', 'yfyy'],
  // Only an owner starts a run from another one.
  'POST /api/runs/:id/fork': ['hfff', 'yfyy'],
  'POST /api/runs/:id/cancel': ['hffy', 'yfyy'],
  'POST /api/runs/:id/suspend': ['hffy', 'yfyy'],
  'POST /api/runs/:id/resume': ['hffy', 'yfyy'],
  'GET /api/runs/:id/stream': ['hyyy', 'yyyy'],
  'GET /api/runs/:id/events': ['hyyy', 'yyyy'],
  'PUT /api/runs/:id/workspace': ['hffy', 'yfyy'],
  'GET /api/runs/:id/workspace': ['hyfy', 'yyyy'],
  'GET /api/runs/:id/diff': ['hyfy', 'yyyy'],
  'GET /api/runs/:id/diff/patch': ['hyfy', 'yyyy'],
  'GET /api/runs/:id/bundle': ['hyfy', 'yyyy'],
  'POST /api/runs/:id/push': ['hffy', 'yfyy'],
  'POST /api/runs/:id/commands': ['hffy', 'yfyy'],
  'DELETE /api/runs/:id/commands/:commandId': ['hffy', 'yfyy'],
  // Reads of a live sandbox keep it alive.
  'GET /api/runs/:id/files': ['hffy', 'yfyy'],
  'GET /api/runs/:id/files/*': ['hffy', 'yfyy'],
  'PUT /api/runs/:id/files/*': ['hffy', 'yfyy'],
  'DELETE /api/runs/:id/files/*': ['hffy', 'yfyy'],
  'GET /api/runs/:id/audit': ['hyfy', 'yyyy'],
  'GET /api/data': ['fyfy', 'yyyy'],
  // An operator gets 409 here, because the runs have not ended.
  'DELETE /api/data': ['fffy', 'fffy'],
  'GET /api/diagnostics': ['fyfy', 'fyfy'],
  'GET /api/audit': ['fyfy', 'fyfy'],
  'GET /api/audit/verification': ['fyfy', 'fyfy'],
  'GET /api/runs/:id/approvals': ['hyyy', 'yyyy'],
  'POST /api/runs/:id/shell-approvals': ['hfyy', 'yfyy'],
  'POST /api/runs/:id/shell-denials': ['hfyy', 'yfyy'],
  'POST /api/runs/:id/tool-approvals': ['hfyy', 'yfyy'],
  'POST /api/runs/:id/tool-denials': ['hfyy', 'yfyy'],
  // An answer tells the agent what to do, so it is more than a decision.
  'POST /api/runs/:id/questions/:requestId/answer': ['hffy', 'yfyy'],
  'GET /api/sandboxes': ['yyyy', 'yyyy'],
  'POST /api/sandboxes': ['yfyy', 'yfyy'],
  'GET /api/sandboxes/:id': ['hyyy', 'yyyy'],
  'DELETE /api/sandboxes/:id': ['hffy', 'yfyy'],
  'POST /api/sandboxes/:id/commands': ['hffy', 'yfyy'],
  'DELETE /api/sandboxes/:id/commands/:commandId': ['hffy', 'yfyy'],
  'GET /api/sandboxes/:id/files': ['hffy', 'yfyy'],
  'GET /api/sandboxes/:id/files/*': ['hffy', 'yfyy'],
  'PUT /api/sandboxes/:id/files/*': ['hffy', 'yfyy'],
  'DELETE /api/sandboxes/:id/files/*': ['hffy', 'yfyy'],
  'GET /api/restrictions': ['yyyy', 'yyyy'],
  'PUT /api/restrictions': ['hffy', 'yfyy'],
  'GET /api/trusted-folders': ['yyyy', 'yyyy'],
  'GET /api/trusted-folders/comparison': ['yyyy', 'yyyy'],
  'PUT /api/trusted-folders': ['yfyy', 'yfyy'],
  'DELETE /api/trusted-folders': ['yfyy', 'yfyy'],
  'GET /api/me': ['yyyy', 'yyyy'],
  'GET /api/models': ['yyyy', 'yyyy'],
  'GET /api/me/credentials': ['yyyy', 'yyyy'],
  'PUT /api/me/credentials/:kind': ['yfyy', 'yfyy'],
  'DELETE /api/me/credentials/:kind': ['yfyy', 'yfyy'],
  'GET /api/keys': ['yyyy', 'yyyy'],
  'POST /api/keys': ['yfyy', 'yfyy'],
  'DELETE /api/keys/:keyId': ['hfhy', 'yfyy'],
  'GET /api/sandbox-policy': ['yyyy', 'yyyy'],
  'PUT /api/sandbox-policy': ['fffy', 'fffy'],
  'PATCH /api/sandbox-policy': ['fffy', 'fffy'],
  'POST /api/sandbox-policy/proposal': ['yfyy', 'yfyy'],
}

const use = useService()

/** The routes with the real service and its store. */
function startRoutes() {
  const { service, store } = use()
  const now = () => new Date()
  const app = buildApp({
    service: { ...service, close: async () => undefined },
    store,
    userCredentials: ownCredentials({ store }).service,
    keys: createKeyService({ store, audit: { append: async () => undefined }, now }),
    log: silentLog,
    now,
    started: Promise.resolve(),
    rateLimitPerMinute: 100_000,
    streams: { perKey: 100, inAll: 100 },
    allowedHosts: ['localhost:80'],
  })
  onTestFinished(() => app.close())
  const addKey = async (owner: string, role: ApiRole) => {
    const key = generateApiKey()
    const id = `key_${crypto.randomUUID()}`
    const createdAt = now().toISOString()
    await store.transaction((tx) => tx.insertApiKey({ id, hash: hashApiKey(key), owner, role, createdAt }))
    return { key, id }
  }
  return { app, addKey }
}

type Routes = ReturnType<typeof startRoutes>

const UPLOAD = {
  task: 'fix it',
  workspace: { kind: 'upload' },
  agent: { kind: 'scripted', plan: { turns: [[]] } },
}

/** Objects of one owner. The runs wait for an upload, so that no sandbox starts. */
async function objectsOf({ app, addKey }: Routes, owner: string) {
  const { key } = await addKey(owner, 'user')
  const spare = await addKey(owner, 'user')
  const post = async (url: string, body?: object): Promise<string> => {
    const answer = await app.inject({ method: 'POST', url, headers: bearer(key), ...(body && { body }) })
    expect(answer.statusCode, answer.body).toBeLessThan(300)
    return answer.json().id
  }
  const runId = await post('/api/runs', UPLOAD)
  const waitingRunId = await post('/api/runs', UPLOAD)
  const doneRunId = await post('/api/runs', UPLOAD)
  await post(`/api/runs/${doneRunId}/cancel`)
  const sandboxId = await post('/api/sandboxes', { workspace: { kind: 'upload' } })
  return {
    owner,
    runId,
    waitingRunId,
    doneRunId,
    sandboxId,
    requestId: `apr_${'0'.repeat(32)}`,
    keyId: spare.id,
  }
}

/** Bodies that start no sandbox, and an empty archive. */
const BODIES: Readonly<Record<string, object | Buffer>> = {
  'PUT /api/runs/:id/workspace': Buffer.alloc(1024),
  'POST /api/runs': UPLOAD,
  'POST /api/sandboxes': { workspace: { kind: 'upload' } },
}

async function outcomeOf(
  { app }: Routes,
  key: string,
  request: ReturnType<typeof sampleOf> & { route: string },
) {
  const { method, url, headers, route } = request
  const body = BODIES[route] ?? request.body
  const answer = await app.inject({
    method,
    url,
    headers: { ...headers, ...bearer(key) },
    ...(body !== undefined && { body }),
  })
  expect(answer.statusCode, `${route}: ${answer.body}`).not.toBe(401)
  expect(answer.statusCode, `${route}: ${answer.body}`).not.toBe(500)
  // A host or a setting that the policy denies is another reason for 403.
  if (answer.statusCode === 403 && answer.json().code === 'forbidden') return 'f'
  const isHidden =
    answer.statusCode === 404 && /there is no (?:run|sandbox|API key)/i.test(answer.json().detail)
  return isHidden ? 'h' : 'y'
}

async function documentedRoutes({ app }: Routes): Promise<string[]> {
  const { paths } = (await app.inject({ url: '/openapi.json' })).json()
  return Object.entries(paths as Record<string, Record<string, { security: object[] }>>).flatMap(
    ([path, operations]) =>
      Object.entries(operations)
        .filter(([, { security }]) => security.length > 0)
        .map(
          ([method]) =>
            `${method.toUpperCase()} ${path.replace('{path}', '*').replaceAll(/\{(\w+)\}/g, ':$1')}`,
        ),
  )
}

describe('the table of roles and routes', () => {
  // A run that is uploaded by this test must not start.
  beforeAll(() =>
    use().service.setRestriction(operator, { scope: { kind: 'all' }, level: 'frozen', reason: 'a test' }),
  )

  test('has every route of the OpenAPI document', async () => {
    expect(Object.keys(TABLE).sort()).toEqual((await documentedRoutes(startRoutes())).sort())
  })

  test.for(ROLES)('holds for %s', async (role) => {
    const routes = startRoutes()
    const place = ROLES.indexOf(role)
    const [me, other] = [`me-${role}`, `other-${role}`]
    const { key } = await routes.addKey(me, role)
    const [own, foreign] = [await objectsOf(routes, me), await objectsOf(routes, other)]

    const found: Record<string, readonly string[]> = {}
    for (const route of Object.keys(TABLE)) {
      const ask = (fixture: typeof own) => outcomeOf(routes, key, { ...sampleOf(route, fixture), route })
      found[route] = [await ask(foreign), await ask(own)]
    }

    const expected = Object.entries(TABLE).map(([route, cells]) => [route, cells.map((cell) => cell[place])])
    expect(found).toEqual(Object.fromEntries(expected))
  })

  test.for(ROLES)('lists for %s only the runs that the role may see', async (role) => {
    const routes = startRoutes()
    const { key } = await routes.addKey(`lists-${role}`, role)
    const { runId } = await objectsOf(routes, `seen-by-${role}`)
    const answer = await routes.app.inject({ url: '/api/runs?limit=200', headers: bearer(key) })
    const ids = answer.json().items.map(({ id }: { id: string }) => id)
    expect(ids.includes(runId)).toBe(role !== 'user')
  })
})
