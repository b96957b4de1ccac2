import { expect, test } from 'vitest'
import { bearer, RUN, startApp } from './harness.ts'

test('an owner starts, reads and lists a run', async () => {
  const { app, keys } = startApp()
  // when
  const started = await app.inject({ method: 'POST', url: '/api/runs', headers: bearer(keys.ada), body: RUN })
  const { id } = started.json()
  const read = await app.inject({ url: `/api/runs/${id}`, headers: bearer(keys.ada) })
  const listed = await app.inject({ url: '/api/runs', headers: bearer(keys.ada) })
  // then
  expect(started.statusCode).toBe(202)
  expect(started.headers.location).toBe(`/api/runs/${id}`)
  expect(read.json()).toMatchObject({ id, owner: 'ada', state: 'queued', task: 'fix it' })
  expect(listed.json().items).toEqual([read.json()])
})

test('a malformed run is rejected with the name of every invalid field', async () => {
  const { app, keys } = startApp()
  const body = {
    task: '',
    workspace: { kind: 'path', path: 'relative' },
    agent: { kind: 'copilot' },
    colour: 'red',
  }
  // when
  const answer = await app.inject({ method: 'POST', url: '/api/runs', headers: bearer(keys.ada), body })
  // then
  expect(answer.statusCode).toBe(400)
  expect(answer.headers['content-type']).toContain('application/problem+json')
  expect(answer.json()).toMatchObject({ code: 'invalid_request', status: 400 })
  const fields = answer.json().errors.map((error: { field: string }) => error.field)
  expect(fields.sort()).toEqual(['colour', 'task', 'workspace.path'])
})
