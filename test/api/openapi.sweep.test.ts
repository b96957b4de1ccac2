import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect, test } from 'vitest'
import { RunEvent } from '../../contracts/events.ts'
import { bearer, RUN, startApp } from './harness.ts'

type Operation = {
  operationId?: string
  summary?: string
  security?: unknown
  parameters?: object[]
  responses: Record<string, { content?: Record<string, { schema: object }> }>
}

type Schema = { properties?: Record<string, { const?: string }> }

async function readDocument() {
  const { app } = startApp()
  const answer = await app.inject({ url: '/openapi.json' })
  return answer.json() as {
    openapi: string
    servers: object[]
    paths: Record<string, Record<string, Operation>>
    components: { schemas: Record<string, Schema> }
  }
}

test('the document is valid OpenAPI 3.1', async () => {
  const document = await readDocument()
  const validator = new Validator()
  const { valid, errors } = await validator.validate(document)
  expect(errors).toBeUndefined()
  expect(valid).toBe(true)
  expect(validator.version).toBe('3.1')
})

test('the validator detects a broken document (control)', async () => {
  const document = await readDocument()
  const broken = { ...document, paths: { '/x': { get: { responses: { 200: { text: 'no description' } } } } } }
  expect((await new Validator().validate(broken)).valid).toBe(false)
})

test('the document has exactly the routes of the interface', async () => {
  const { paths } = await readDocument()
  const served = Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(served.sort()).toEqual([
    'DELETE /api/data',
    'DELETE /api/keys/{keyId}',
    'DELETE /api/me/credentials/{kind}',
    'DELETE /api/runs/{id}/commands/{commandId}',
    'DELETE /api/runs/{id}/files/{path}',
    'DELETE /api/sandboxes/{id}',
    'DELETE /api/sandboxes/{id}/commands/{commandId}',
    'DELETE /api/sandboxes/{id}/files/{path}',
    'DELETE /api/trusted-folders',
    'GET /api/audit',
    'GET /api/audit/verification',
    'GET /api/data',
    'GET /api/diagnostics',
    'GET /api/keys',
    'GET /api/me',
    'GET /api/me/credentials',
    'GET /api/models',
    'GET /api/restrictions',
    'GET /api/runs',
    'GET /api/runs/{id}',
    'GET /api/runs/{id}/approvals',
    'GET /api/runs/{id}/audit',
    'GET /api/runs/{id}/bundle',
    'GET /api/runs/{id}/diff',
    'GET /api/runs/{id}/diff/patch',
    'GET /api/runs/{id}/egress',
    'GET /api/runs/{id}/events',
    'GET /api/runs/{id}/files',
    'GET /api/runs/{id}/files/{path}',
    'GET /api/runs/{id}/stream',
    'GET /api/runs/{id}/workspace',
    'GET /api/sandbox-policy',
    'GET /api/sandboxes',
    'GET /api/sandboxes/{id}',
    'GET /api/sandboxes/{id}/files',
    'GET /api/sandboxes/{id}/files/{path}',
    'GET /api/sign-in',
    'GET /api/trusted-folders',
    'GET /api/trusted-folders/comparison',
    'GET /healthz',
    'GET /metrics',
    'GET /readyz',
    'PATCH /api/sandbox-policy',
    'POST /api/keys',
    'POST /api/runs',
    'POST /api/runs/{id}/cancel',
    'POST /api/runs/{id}/commands',
    'POST /api/runs/{id}/egress/allowed-hosts',
    'POST /api/runs/{id}/fork',
    'POST /api/runs/{id}/push',
    'POST /api/runs/{id}/questions/{requestId}/answer',
    'POST /api/runs/{id}/resume',
    'POST /api/runs/{id}/shell-approvals',
    'POST /api/runs/{id}/shell-denials',
    'POST /api/runs/{id}/suspend',
    'POST /api/runs/{id}/tool-approvals',
    'POST /api/runs/{id}/tool-denials',
    'POST /api/runs/{id}/turns',
    'POST /api/sandbox-policy/proposal',
    'POST /api/sandboxes',
    'POST /api/sandboxes/{id}/commands',
    'PUT /api/me/credentials/{kind}',
    'PUT /api/restrictions',
    'PUT /api/runs/{id}/files/{path}',
    'PUT /api/runs/{id}/workspace',
    'PUT /api/sandbox-policy',
    'PUT /api/sandboxes/{id}/files/{path}',
    'PUT /api/trusted-folders',
  ])
})

test('changes of a credential can fail because of the vault, and the text for 502 fits every route', async () => {
  const { paths } = await readDocument()
  const operations = paths['/api/me/credentials/{kind}'] ?? {}
  for (const method of ['put', 'delete'])
    expect(Object.keys(operations[method]?.responses ?? {}), method).toEqual(
      expect.arrayContaining(['409', '502', '503']),
    )
  expect(JSON.stringify(operations)).not.toContain('The sandbox failed.')
})

test('every guarded operation has its key, its summary and its possible responses', async () => {
  const { paths } = await readDocument()
  const isGuarded = (path: string) => path.startsWith('/api/') && path !== '/api/sign-in'
  for (const [path, operations] of Object.entries(paths).filter(([path]) => isGuarded(path))) {
    for (const [method, operation] of Object.entries(operations)) {
      const name = `${method} ${path}`
      expect(operation.security, name).toEqual([{ apiKey: [] }])
      expect(operation.summary, name).toBeTruthy()
      expect(Object.keys(operation.responses), name).toEqual(
        expect.arrayContaining(['400', '401', '429', '500']),
      )
    }
  }
})

test('every operation has a unique name in camel case', async () => {
  const { paths } = await readDocument()
  const names = Object.values(paths).flatMap((operations) =>
    Object.values(operations).map(({ operationId }) => operationId ?? ''),
  )
  expect(new Set(names).size).toBe(names.length)
  for (const name of names) expect(name).toMatch(/^[a-z]+(?:[A-Z][a-z]+)+$|^answerQuestion$/)
})

test('the document names its server', async () => {
  expect((await readDocument()).servers).toMatchObject([{ url: '/' }])
})

test('operations without a key are marked', async () => {
  const { paths } = await readDocument()
  for (const path of ['/healthz', '/readyz', '/metrics', '/api/sign-in'])
    expect(paths[path]?.['get']?.security).toEqual([])
})

test('each event of a stream is a named schema', async () => {
  const document = await readDocument()
  const { schemas } = document.components
  const stream = document.paths['/api/runs/{id}/stream']?.['get']
  expect(stream?.responses['200']?.content?.['text/event-stream']?.schema).toEqual({
    $ref: '#/components/schemas/RunEnvelope',
  })
  const variants = (schemas['RunEvent'] as { oneOf: { $ref: string }[] }).oneOf
  const types = variants.map(({ $ref }) => schemas[$ref.split('/').at(-1) ?? '']?.properties?.['type']?.const)
  expect(types).toEqual(RunEvent.options.map((option) => option.shape.type.value))
})

test('whole numbers in a query are integers with bounds', async () => {
  const { paths } = await readDocument()
  const operation = paths['/api/runs/{id}/events']?.['get']
  expect(operation?.parameters).toContainEqual(
    expect.objectContaining({
      name: 'limit',
      schema: { type: 'integer', minimum: 1, maximum: 1000, default: 200 },
    }),
  )
})

test('bounds that code checks are in the document', async () => {
  const { schemas } = (await readDocument()).components
  expect(schemas['Labels']).toMatchObject({ maxProperties: 32 })
  expect(schemas['StartCommand']?.properties?.['command']).toMatchObject({ minLength: 1, maxLength: 65_536 })
})

test('the schema of an approval accepts exactly what the service accepts', async () => {
  const { app, keys, service } = startApp()
  const { schemas } = (await readDocument()).components
  const check = new Ajv2020({ strict: false }).compile(schemas['ApproveShell'] ?? {})
  const headers = bearer(keys.ada)
  const run = (await app.inject({ method: 'POST', url: '/api/runs', headers, body: RUN })).json()
  const { requestId } = service.addApproval(run.id, { commandHash: '0123456789abcdef' })
  const bodies = [{}, { requestId, commandHash: '0123456789abcdef' }, { commandHash: 'x' }, { requestId }]
  for (const body of bodies) {
    const url = `/api/runs/${run.id}/shell-approvals`
    const { statusCode } = await app.inject({ method: 'POST', url, headers, body })
    expect(check(body), JSON.stringify(body)).toBe(statusCode === 200)
  }
})

test('no schema is duplicated or unused', async () => {
  const document = await readDocument()
  const text = JSON.stringify(document)
  for (const name of Object.keys(document.components.schemas)) {
    expect(text, name).toContain(`"#/components/schemas/${name}"`)
    expect(name).not.toMatch(/Input$/)
  }
})

test('no property is a bare true or false, which openapi-python-client cannot read', async () => {
  const bare: string[] = []
  JSON.stringify(await readDocument(), (key, value) => {
    if (key === 'properties') {
      for (const [name, schema] of Object.entries(value)) if (typeof schema === 'boolean') bare.push(name)
    }
    return value
  })
  expect(bare).toEqual([])
})
