import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { startApp } from './harness.ts'

type Operation = { summary?: string; security?: unknown; responses: Record<string, unknown> }

async function readDocument() {
  const { app } = startApp()
  const answer = await app.inject({ url: '/openapi.json' })
  return answer.json() as { openapi: string; paths: Record<string, Record<string, Operation>> }
}

test('the document is valid OpenAPI 3.1', async () => {
  const document = await readDocument()
  const validator = new Validator()
  const { valid, errors } = await validator.validate(document)
  expect(errors).toBeUndefined()
  expect(valid).toBe(true)
  expect(validator.version).toBe('3.1')
})

test('the validator finds a fault in a document that has one', async () => {
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
    'DELETE /api/runs/{id}/commands/{commandId}',
    'DELETE /api/sandboxes/{id}',
    'DELETE /api/sandboxes/{id}/commands/{commandId}',
    'DELETE /api/sandboxes/{id}/files/{path}',
    'DELETE /api/trusted-folders',
    'GET /api/audit',
    'GET /api/audit/verification',
    'GET /api/runs',
    'GET /api/runs/{id}',
    'GET /api/runs/{id}/approvals',
    'GET /api/runs/{id}/audit',
    'GET /api/runs/{id}/bundle',
    'GET /api/runs/{id}/diff',
    'GET /api/runs/{id}/diff/patch',
    'GET /api/runs/{id}/events',
    'GET /api/runs/{id}/stream',
    'GET /api/runs/{id}/workspace',
    'GET /api/sandbox-policy',
    'GET /api/sandboxes',
    'GET /api/sandboxes/{id}',
    'GET /api/sandboxes/{id}/files',
    'GET /api/sandboxes/{id}/files/{path}',
    'GET /api/trusted-folders',
    'GET /api/trusted-folders/comparison',
    'GET /healthz',
    'GET /metrics',
    'GET /readyz',
    'PATCH /api/sandbox-policy',
    'POST /api/runs',
    'POST /api/runs/{id}/cancel',
    'POST /api/runs/{id}/commands',
    'POST /api/runs/{id}/questions/{requestId}/answer',
    'POST /api/runs/{id}/shell-approvals',
    'POST /api/runs/{id}/shell-denials',
    'POST /api/runs/{id}/tool-approvals',
    'POST /api/runs/{id}/tool-denials',
    'POST /api/runs/{id}/turns',
    'POST /api/sandboxes',
    'POST /api/sandboxes/{id}/commands',
    'PUT /api/runs/{id}/workspace',
    'PUT /api/sandbox-policy',
    'PUT /api/sandboxes/{id}/files/{path}',
    'PUT /api/trusted-folders',
  ])
})

test('every guarded operation names its key, its summary and the answers it can give', async () => {
  const { paths } = await readDocument()
  for (const [path, operations] of Object.entries(paths).filter(([path]) => path.startsWith('/api/'))) {
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
