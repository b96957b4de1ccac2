import { once } from 'node:events'
import { request } from 'node:http'
import { describe, expect, test } from 'vitest'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { bearer, type Harness, listen, RUN, startApp } from './harness.ts'
import { makeFixture } from './sample-requests.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const TAR = { 'content-type': 'application/x-tar' }
const BYTES = { 'content-type': 'application/octet-stream' }

async function start() {
  const harness = startApp()
  return { ...harness, ...(await makeFixture(harness)), send: sender(harness) }
}

const sender =
  ({ app, keys }: Harness) =>
  async (method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, more: object = {}) => {
    const {
      headers = {},
      key = keys.ada,
      ...rest
    } = more as { headers?: Record<string, string>; key?: string }
    return app.inject({ method, url, ...rest, headers: { ...headers, ...bearer(key) } })
  }

const codeOf = (answer: { statusCode: number; json: () => { code: string } }) => [
  answer.statusCode,
  answer.json().code,
]

describe('runs', () => {
  test('are rejected when the queue is full, with the time until a retry makes sense', async () => {
    const { service, send } = await start()
    service.maxRuns = service.runs.size
    const refused = await send('POST', '/api/runs', { body: RUN })
    expect(codeOf(refused)).toEqual([429, 'queue_full'])
    expect(refused.headers['retry-after']).toBe('10')
    expect(codeOf(await send('POST', '/api/sandboxes', { body: {} }))).toEqual([429, 'queue_full'])
  })

  test('accept nothing after they have ended', async () => {
    const { doneRunId: id, send } = await start()
    const ended = [409, 'run_ended']
    expect(codeOf(await send('POST', `/api/runs/${id}/turns`, { body: { prompt: 'go on' } }))).toEqual(ended)
    expect(codeOf(await send('POST', `/api/runs/${id}/cancel`))).toEqual(ended)
    expect(codeOf(await send('POST', `/api/runs/${id}/commands`, { body: { command: 'true' } }))).toEqual(
      ended,
    )
  })

  test('are listed in pages, each with the start of the next one', async () => {
    const { send } = await start()
    const first = (await send('GET', '/api/runs?limit=2')).json()
    const second = (await send('GET', `/api/runs?limit=2&after=${first.next}`)).json()
    expect(first.items).toHaveLength(2)
    expect(second.items).toHaveLength(1)
    expect(second.next).toBeUndefined()
  })

  test.for(['limit=0', 'limit=201', 'limit=x', 'limit=1.5', `after=${'x'.repeat(257)}`])(
    'rejects the list query %s',
    async (query) => {
      const { send } = await start()
      expect(codeOf(await send('GET', `/api/runs?${query}`))).toEqual([400, 'invalid_request'])
    },
  )
})

describe('a workspace', () => {
  test('is uploaded once and downloaded unchanged', async () => {
    const { waitingRunId: id, send } = await start()
    const archive = Buffer.from(Array.from({ length: 5000 }, (_, index) => index % 256))
    const upload = { headers: TAR, body: archive }
    expect((await send('PUT', `/api/runs/${id}/workspace`, upload)).json().state).toBe('queued')
    const download = await send('GET', `/api/runs/${id}/workspace`)
    expect(download.headers['content-type']).toBe('application/x-tar')
    expect(download.headers['content-disposition']).toBe(`attachment; filename="${id}.tar"`)
    expect(download.rawPayload).toEqual(archive)
    expect(codeOf(await send('PUT', `/api/runs/${id}/workspace`, upload))).toEqual([409, 'conflict'])
  })

  test('is rejected before a byte is read if its announced length is too large', async () => {
    const { waitingRunId: id, send, service } = await start()
    const headers = { ...TAR, 'content-length': String(FILE_LIMITS.maxArchiveBytes + 1) }
    const answer = await send('PUT', `/api/runs/${id}/workspace`, { headers, body: 'x' })
    expect(codeOf(answer)).toEqual([413, 'payload_too_large'])
    expect(service.calls.at(-1)).not.toBe('uploadWorkspace')
  })

  test('is rejected unless it is a tar stream', async () => {
    const { waitingRunId: id, send } = await start()
    for (const headers of [JSON_TYPE, { 'content-type': 'application/zip' }]) {
      const answer = await send('PUT', `/api/runs/${id}/workspace`, { headers, body: '{}' })
      expect([400, 415]).toContain(answer.statusCode)
    }
  })

  test('is streamed: the first bytes arrive before the last are sent', async () => {
    const harness = startApp()
    const url = await listen(harness)
    const { waitingRunId: id } = await makeFixture(harness)
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
    harness.service.uploadWorkspace = async (caller, runId, archive) => {
      for await (const _ of archive) arrive()
      return harness.service.readRun(caller, runId)
    }
    async function* body() {
      yield Buffer.from('first')
      await arrived
      yield Buffer.from('last')
    }
    const answer = await fetch(`${url}/api/runs/${id}/workspace`, {
      method: 'PUT',
      headers: { ...TAR, ...bearer(harness.keys.ada) },
      body: body(),
      duplex: 'half',
    })
    expect(answer.status).toBe(200)
  })
})

describe('a command', () => {
  test('is followed until it exits, without the output of other commands', async () => {
    const { sandboxId, send } = await start()
    const answer = await send('POST', `/api/sandboxes/${sandboxId}/commands`, {
      body: { command: 'echo hello' },
    })
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-type']).toContain('text/event-stream')
    expect(answer.body).toContain('hello\\n')
    expect(answer.body).not.toContain('not mine')
    expect(answer.body.trimEnd().split('\n\n').at(-1)).toContain('event: command.exited')
  })

  test.for(['respond-async', 'return=minimal, Respond-Async'])(
    'is only started with Prefer: %s',
    async (prefer) => {
      const { sandboxId, send } = await start()
      const url = `/api/sandboxes/${sandboxId}/commands`
      const answer = await send('POST', url, { body: { command: 'true' }, headers: { prefer } })
      expect(answer.statusCode).toBe(202)
      expect(answer.headers['preference-applied']).toBe('respond-async')
      expect(answer.json()).toEqual({ commandId: expect.any(String), afterSequence: 0 })
    },
  )

  test.for([
    { command: '' },
    { command: 'a\0b' },
    { command: 'x'.repeat(65_537) },
    { command: 'true', timeoutMs: 0 },
    { command: 'true', timeoutMs: 3_600_001 },
    { command: 'true', environment: { '1X': 'a' } },
    { command: 'true', stdin: 'not base64!' },
    { command: 'true', readOnlyRoots: ['/'] },
  ])('is rejected if it is %j', async (body) => {
    const { sandboxId, send } = await start()
    expect(codeOf(await send('POST', `/api/sandboxes/${sandboxId}/commands`, { body }))).toEqual([
      400,
      'invalid_request',
    ])
  })

  test('cannot be cancelled if it is not running', async () => {
    const { sandboxId, send } = await start()
    const url = `/api/sandboxes/${sandboxId}/commands/cmd_absent`
    expect(codeOf(await send('DELETE', url))).toEqual([404, 'not_found'])
  })
})

describe('files of a sandbox', () => {
  test('keep every byte and every name', async () => {
    const { sandboxId, send } = await start()
    const content = Buffer.from([0, 1, 255, 13, 10])
    const url = `/api/sandboxes/${sandboxId}/files/a%20b/%C3%BC%3F%23.bin`
    expect((await send('PUT', url, { headers: BYTES, body: content })).statusCode).toBe(204)
    const read = await send('GET', url)
    expect(read.rawPayload).toEqual(content)
    expect(read.headers['content-type']).toBe('application/octet-stream')
    const { entries } = (await send('GET', `/api/sandboxes/${sandboxId}/files`)).json()
    expect(entries.map(({ path }: { path: string }) => path)).toContain('a b/ü?#.bin')
    expect((await send('DELETE', url)).statusCode).toBe(204)
    expect(codeOf(await send('GET', url))).toEqual([404, 'not_found'])
  })

  test.for(['../../etc/passwd', '%2e%2e/%2e%2e/etc/passwd', 'a/..%2f..%2fetc/passwd', '..', '%2E%2E'])(
    'cannot be reached through %s, sent unchanged',
    async (path) => {
      const harness = startApp()
      const { port } = new URL(await listen(harness))
      const { sandboxId } = await makeFixture(harness)
      for (const method of ['GET', 'DELETE']) {
        const question = request({
          port,
          host: '127.0.0.1',
          method,
          path: `/api/sandboxes/${sandboxId}/files/${path}`,
          headers: bearer(harness.keys.ada),
        }).end()
        const [answer] = await once(question, 'response')
        const problem = JSON.parse(String(await answer.toArray()))
        expect([answer.statusCode, problem.code]).toEqual([400, 'invalid_path'])
      }
    },
  )

  test('have limits for their size and the length of their path', async () => {
    const { sandboxId, send } = await start()
    const folder = `/api/sandboxes/${sandboxId}/files`
    const large = { headers: BYTES, body: Buffer.alloc(FILE_LIMITS.maxWriteBytes + 1) }
    expect(codeOf(await send('PUT', `${folder}/large`, large))).toEqual([413, 'payload_too_large'])
    const long = `${folder}/${'x'.repeat(FILE_LIMITS.maxPathBytes + 1)}`
    expect(codeOf(await send('GET', long))).toEqual([400, 'invalid_request'])
    expect((await send('GET', `${folder}/${'x'.repeat(FILE_LIMITS.maxPathBytes)}`)).statusCode).toBe(404)
  })

  test('are not overwritten unless the request allows it', async () => {
    const { sandboxId, send } = await start()
    const url = `/api/sandboxes/${sandboxId}/files/a.txt?create=exclusive`
    expect(codeOf(await send('PUT', url, { headers: BYTES, body: 'x' }))).toEqual([409, 'conflict'])
    expect(
      codeOf(await send('PUT', url.replace('exclusive', 'maybe'), { headers: BYTES, body: 'x' })),
    ).toEqual([400, 'invalid_request'])
  })
})

describe('decisions', () => {
  test('are made once', async () => {
    const { runId, requestId, send } = await start()
    const decide = (body: object) => send('POST', `/api/runs/${runId}/shell-approvals`, { body })
    expect((await decide({ commandHash: '0123456789abcdef' })).json()).toMatchObject({
      requestId,
      state: 'approved',
      decidedBy: 'ada',
    })
    expect(codeOf(await decide({ requestId }))).toEqual([409, 'already_decided'])
  })

  test.for([
    {},
    { requestId: 'a', commandHash: '0123456789abcdef' },
    { commandHash: 'XYZ' },
    { requestId: '' },
  ])('are rejected for %j', async (body) => {
    const { runId, send } = await start()
    for (const route of ['shell-approvals', 'shell-denials']) {
      expect(codeOf(await send('POST', `/api/runs/${runId}/${route}`, { body }))).toEqual([
        400,
        'invalid_request',
      ])
    }
  })

  test('of one run do not apply to another run', async () => {
    const { doneRunId, requestId, send } = await start()
    const answer = await send('POST', `/api/runs/${doneRunId}/shell-approvals`, { body: { requestId } })
    expect(codeOf(answer)).toEqual([404, 'not_found'])
  })
})

describe('the sandbox policy', () => {
  test('is replaced, merged and read', async () => {
    const { keys, send } = await start()
    const key = keys.operator
    const patch = await send('PATCH', '/api/sandbox-policy', { key, body: { shell_enabled: false } })
    expect(patch.json().shell_enabled).toBe(false)
    await send('PATCH', '/api/sandbox-policy', { key, body: { network_enabled: true } })
    expect((await send('GET', '/api/sandbox-policy', { key })).json()).toMatchObject({
      shell_enabled: false,
      network_enabled: true,
    })
    const put = await send('PUT', '/api/sandbox-policy', { key, body: { network_enabled: true } })
    expect(put.json()).toMatchObject({ shell_enabled: true, network_enabled: true })
  })

  test('lists every problem at once, and cannot turn isolation off', async () => {
    const { keys, send } = await start()
    const body = {
      direct: true,
      shell_enabled: 'yes',
      max_output_bytes: 1,
      allowed_repository_roots: ['../x'],
    }
    const answer = await send('PUT', '/api/sandbox-policy', { key: keys.operator, body })
    expect(answer.statusCode).toBe(400)
    const fields = answer.json().errors.map(({ field }: { field: string }) => field)
    expect(fields.sort()).toEqual([
      'allowed_repository_roots.0',
      'direct',
      'max_output_bytes',
      'shell_enabled',
    ])
  })
})

describe('the open routes', () => {
  test('report whether the service is alive and can take runs', async () => {
    const { app, service } = startApp()
    expect((await app.inject('/healthz')).json()).toEqual({ status: 'ok' })
    expect((await app.inject('/readyz')).json()).toMatchObject({ ready: true })
    service.isReady = false
    const notReady = await app.inject('/readyz')
    expect(notReady.statusCode).toBe(503)
    expect(notReady.json().checks).toEqual([{ name: 'store', ok: false, detail: 'in memory' }])
    expect((await app.inject('/healthz')).statusCode).toBe(200)
  })

  test('return metrics in Prometheus format', async () => {
    const answer = await startApp().app.inject('/metrics')
    expect(answer.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(answer.body).toContain('agentweaver_runs 0')
  })
})
