import { bearer, type Harness, RUN } from './harness.ts'

/** A valid request to each guarded route, sent by ada. */
export type Sample = {
  readonly url: string
  readonly body?: string | Buffer | object
  readonly headers?: Record<string, string>
  /** Status for the owner, and for another owner. */
  readonly status: number
  readonly foreign: number
  /** Another valid body. Undefined if the route takes none. */
  readonly otherBody?: Sample['body']
}

export type Fixture = Awaited<ReturnType<typeof makeFixture>>

/** Ada's objects: a running run, one that waits for its upload, one that has ended, a sandbox with a file, and a key. */
export async function makeFixture({ app, keys, service }: Pick<Harness, 'app' | 'keys' | 'service'>) {
  const post = async (url: string, body: object): Promise<string> => {
    const answer = await app.inject({ method: 'POST', url, headers: bearer(keys.ada), body })
    return answer.json().id
  }
  const runId = await post('/api/runs', RUN)
  const waitingRunId = await post('/api/runs', { ...RUN, workspace: { kind: 'upload' } })
  const doneRunId = await post('/api/runs', { ...RUN, workspace: { kind: 'upload' } })
  const sandboxId = await post('/api/sandboxes', {})
  await app.inject({
    method: 'PUT',
    url: `/api/runs/${doneRunId}/workspace`,
    headers: { ...bearer(keys.ada), ...TAR },
    body: 'a tar',
  })
  service.append(doneRunId, { type: 'done', data: { state: 'succeeded' } })
  for (const path of [`sandboxes/${sandboxId}`, `runs/${runId}`])
    await app.inject({
      method: 'PUT',
      url: `/api/${path}/files/a.txt`,
      headers: { ...bearer(keys.ada), ...BYTES },
      body: 'a',
    })
  await app.inject({
    method: 'PUT',
    url: '/api/trusted-folders',
    headers: bearer(keys.ada),
    body: { path: '/srv/trusted', digest: null },
  })
  await app.inject({
    method: 'PUT',
    url: '/api/me/credentials/registry',
    headers: bearer(keys.ada),
    body: { host: 'npm.corp.example.com', value: 'npm_0123456789abcdefghijklmnopqrstuvwxyz' },
  })
  const keyId: string = (
    await app.inject({ method: 'POST', url: '/api/keys', headers: bearer(keys.ada), body: { name: 'ci' } })
  ).json().id
  const requestId = service.addApproval(runId, { commandHash: '0123456789abcdef' }).requestId
  return { owner: 'ada', runId, waitingRunId, doneRunId, sandboxId, requestId, keyId }
}

const TAR = { 'content-type': 'application/x-tar' }
const BYTES = { 'content-type': 'application/octet-stream' }
const own = { status: 200, foreign: 404 }

/** By method and pattern, as in the router. */
export const SAMPLES: Readonly<Record<string, (fixture: Fixture) => Sample>> = {
  'POST /api/runs': () => ({
    url: '/api/runs',
    body: RUN,
    otherBody: { ...RUN, task: 'another' },
    status: 202,
    foreign: 202,
  }),
  'GET /api/runs': () => ({ url: '/api/runs', status: 200, foreign: 200 }),
  'GET /api/runs/:id': ({ runId }) => ({ url: `/api/runs/${runId}`, ...own }),
  'GET /api/runs/:id/egress': ({ runId }) => ({ url: `/api/runs/${runId}/egress`, ...own }),
  'POST /api/runs/:id/egress/allowed-hosts': ({ runId }) => ({
    url: `/api/runs/${runId}/egress/allowed-hosts`,
    body: { host: 'a.example.com', reason: 'the build needs it' },
    otherBody: { host: 'b.example.com', reason: 'the build needs it' },
    ...own,
  }),
  'POST /api/runs/:id/turns': ({ runId }) => ({
    url: `/api/runs/${runId}/turns`,
    body: { prompt: 'go on' },
    otherBody: { prompt: 'stop' },
    ...own,
    status: 202,
  }),
  'POST /api/runs/:id/fork': ({ runId }) => ({
    url: `/api/runs/${runId}/fork`,
    body: { task: 'try another way' },
    otherBody: { task: 'try a third way' },
    ...own,
    status: 202,
  }),
  'POST /api/runs/:id/cancel': ({ runId }) => ({ url: `/api/runs/${runId}/cancel`, ...own }),
  'POST /api/runs/:id/suspend': ({ runId }) => ({ url: `/api/runs/${runId}/suspend`, ...own }),
  'POST /api/runs/:id/resume': ({ runId }) => ({ url: `/api/runs/${runId}/resume`, ...own }),
  'GET /api/runs/:id/stream': ({ doneRunId }) => ({ url: `/api/runs/${doneRunId}/stream`, ...own }),
  'GET /api/runs/:id/events': ({ runId }) => ({ url: `/api/runs/${runId}/events`, ...own }),
  'PUT /api/runs/:id/workspace': ({ waitingRunId }) => ({
    url: `/api/runs/${waitingRunId}/workspace`,
    headers: TAR,
    body: 'a tar',
    otherBody: 'a longer tar',
    ...own,
  }),
  'GET /api/runs/:id/workspace': ({ doneRunId }) => ({ url: `/api/runs/${doneRunId}/workspace`, ...own }),
  'GET /api/runs/:id/diff': ({ doneRunId }) => ({ url: `/api/runs/${doneRunId}/diff`, ...own }),
  'GET /api/runs/:id/diff/patch': ({ doneRunId }) => ({ url: `/api/runs/${doneRunId}/diff/patch`, ...own }),
  'GET /api/runs/:id/bundle': ({ doneRunId }) => ({ url: `/api/runs/${doneRunId}/bundle`, ...own }),
  'POST /api/runs/:id/push': ({ runId }) => ({
    url: `/api/runs/${runId}/push`,
    body: { branch: 'fix' },
    otherBody: { branch: 'fix-2' },
    ...own,
  }),
  'POST /api/runs/:id/commands': ({ runId }) => ({
    url: `/api/runs/${runId}/commands`,
    body: { command: 'true' },
    otherBody: { command: 'false' },
    ...own,
  }),
  'DELETE /api/runs/:id/commands/:commandId': ({ runId }) => ({
    url: `/api/runs/${runId}/commands/cmd_1`,
    ...own,
    status: 204,
  }),
  'GET /api/runs/:id/audit': ({ runId }) => ({ url: `/api/runs/${runId}/audit`, ...own }),
  'GET /api/data': ({ owner }) => ({ url: `/api/data?owner=${owner}`, status: 200, foreign: 403 }),
  'DELETE /api/data': ({ owner }) => ({ url: `/api/data?owner=${owner}`, status: 403, foreign: 403 }),
  'GET /api/diagnostics': () => ({ url: '/api/diagnostics', status: 403, foreign: 403 }),
  'GET /api/audit': () => ({ url: '/api/audit', status: 403, foreign: 403 }),
  'GET /api/audit/verification': () => ({ url: '/api/audit/verification', status: 403, foreign: 403 }),
  'GET /api/runs/:id/approvals': ({ runId }) => ({ url: `/api/runs/${runId}/approvals`, ...own }),
  'POST /api/runs/:id/shell-approvals': ({ runId, requestId }) => ({
    url: `/api/runs/${runId}/shell-approvals`,
    body: { requestId },
    otherBody: { requestId, scope: 'run' },
    ...own,
  }),
  'POST /api/runs/:id/shell-denials': ({ runId, requestId }) => ({
    url: `/api/runs/${runId}/shell-denials`,
    body: { requestId },
    otherBody: { requestId, reason: 'no' },
    ...own,
  }),
  'POST /api/runs/:id/tool-approvals': ({ runId, requestId }) => ({
    url: `/api/runs/${runId}/tool-approvals`,
    body: { requestId },
    otherBody: { requestId, scope: 'run' },
    ...own,
  }),
  'POST /api/runs/:id/tool-denials': ({ runId, requestId }) => ({
    url: `/api/runs/${runId}/tool-denials`,
    body: { requestId },
    otherBody: { requestId, reason: 'no' },
    ...own,
  }),
  'POST /api/runs/:id/questions/:requestId/answer': ({ runId, requestId }) => ({
    url: `/api/runs/${runId}/questions/${requestId}/answer`,
    body: { answer: 'yes' },
    otherBody: { answer: 'no' },
    ...own,
    status: 204,
  }),
  'GET /api/runs/:id/files': ({ runId }) => ({ url: `/api/runs/${runId}/files`, ...own }),
  'GET /api/runs/:id/files/*': ({ runId }) => ({
    url: `/api/runs/${runId}/files/a.txt`,
    ...own,
  }),
  'PUT /api/runs/:id/files/*': ({ runId }) => ({
    url: `/api/runs/${runId}/files/b.txt`,
    headers: BYTES,
    body: 'b',
    otherBody: 'c',
    ...own,
    status: 204,
  }),
  'DELETE /api/runs/:id/files/*': ({ runId }) => ({
    url: `/api/runs/${runId}/files/a.txt`,
    ...own,
    status: 204,
  }),
  'POST /api/sandboxes': () => ({
    url: '/api/sandboxes',
    body: {},
    otherBody: { labels: { a: 'b' } },
    status: 202,
    foreign: 202,
  }),
  'GET /api/sandboxes': () => ({ url: '/api/sandboxes', status: 200, foreign: 200 }),
  'GET /api/sandboxes/:id': ({ sandboxId }) => ({ url: `/api/sandboxes/${sandboxId}`, ...own }),
  'DELETE /api/sandboxes/:id': ({ sandboxId }) => ({
    url: `/api/sandboxes/${sandboxId}`,
    ...own,
    status: 204,
  }),
  'POST /api/sandboxes/:id/commands': ({ sandboxId }) => ({
    url: `/api/sandboxes/${sandboxId}/commands`,
    body: { command: 'true' },
    otherBody: { command: 'false' },
    ...own,
  }),
  'DELETE /api/sandboxes/:id/commands/:commandId': ({ sandboxId }) => ({
    url: `/api/sandboxes/${sandboxId}/commands/cmd_1`,
    ...own,
    status: 204,
  }),
  'GET /api/sandboxes/:id/files': ({ sandboxId }) => ({ url: `/api/sandboxes/${sandboxId}/files`, ...own }),
  'GET /api/sandboxes/:id/files/*': ({ sandboxId }) => ({
    url: `/api/sandboxes/${sandboxId}/files/a.txt`,
    ...own,
  }),
  'PUT /api/sandboxes/:id/files/*': ({ sandboxId }) => ({
    url: `/api/sandboxes/${sandboxId}/files/b.txt`,
    headers: BYTES,
    body: 'b',
    otherBody: 'c',
    ...own,
    status: 204,
  }),
  'DELETE /api/sandboxes/:id/files/*': ({ sandboxId }) => ({
    url: `/api/sandboxes/${sandboxId}/files/a.txt`,
    ...own,
    status: 204,
  }),
  'GET /api/restrictions': () => ({ url: '/api/restrictions', status: 200, foreign: 200 }),
  'PUT /api/restrictions': ({ runId }) => ({
    url: '/api/restrictions',
    body: { scope: { kind: 'run', id: runId }, level: 'no-network', reason: 'an incident' },
    otherBody: { scope: { kind: 'run', id: runId }, level: 'normal', reason: 'it is over' },
    ...own,
  }),
  'GET /api/trusted-folders': () => ({ url: '/api/trusted-folders', status: 200, foreign: 200 }),
  'GET /api/trusted-folders/comparison': () => ({
    url: '/api/trusted-folders/comparison?path=/srv/project',
    status: 200,
    foreign: 200,
  }),
  'PUT /api/trusted-folders': () => ({
    url: '/api/trusted-folders',
    body: { path: '/srv/project', digest: null },
    otherBody: { path: '/srv/other', digest: null },
    status: 200,
    foreign: 200,
  }),
  'DELETE /api/trusted-folders': () => ({
    url: '/api/trusted-folders?path=/srv/trusted',
    status: 204,
    foreign: 404,
  }),
  'GET /api/models': () => ({ url: '/api/models', status: 200, foreign: 200 }),
  'GET /api/me': () => ({ url: '/api/me', status: 200, foreign: 200 }),
  'GET /api/me/credentials': () => ({ url: '/api/me/credentials', status: 200, foreign: 200 }),
  'PUT /api/me/credentials/:kind': () => ({
    url: '/api/me/credentials/github',
    body: { value: 'ghp_0123456789abcdefghijklmnopqrstuvwxyz' },
    otherBody: { value: 'ghp_anotherToken0123456789abcdefghijklmn' },
    status: 200,
    foreign: 200,
  }),
  'DELETE /api/me/credentials/:kind': () => ({
    url: '/api/me/credentials/registry?host=npm.corp.example.com',
    status: 200,
    foreign: 404,
  }),
  'GET /api/keys': () => ({ url: '/api/keys', status: 200, foreign: 200 }),
  'POST /api/keys': () => ({
    url: '/api/keys',
    body: { name: 'nightly build' },
    otherBody: { name: 'another' },
    status: 201,
    foreign: 201,
  }),
  'DELETE /api/keys/:keyId': ({ keyId }) => ({ url: `/api/keys/${keyId}`, ...own }),
  'GET /api/sandbox-policy': () => ({ url: '/api/sandbox-policy', status: 200, foreign: 200 }),
  'PUT /api/sandbox-policy': () => ({
    url: '/api/sandbox-policy',
    body: {},
    otherBody: { shell_enabled: false },
    status: 403,
    foreign: 403,
  }),
  'PATCH /api/sandbox-policy': () => ({
    url: '/api/sandbox-policy',
    body: {},
    otherBody: { shell_enabled: false },
    status: 403,
    foreign: 403,
  }),
  'POST /api/sandbox-policy/proposal': () => ({
    url: '/api/sandbox-policy/proposal',
    body: { settings: { shell_enabled: false } },
    status: 200,
    foreign: 200,
  }),
}

export const sampleOf = (route: string, fixture: Fixture) => {
  const make = SAMPLES[route]
  if (!make) throw new Error(`there is no sample of ${route}`)
  const [method = ''] = route.split(' ')
  return { method: method as 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', ...make(fixture) }
}
