import { describe, expect, test } from 'vitest'
import { bearer, startApp } from './harness.ts'
import { makeFixture, SAMPLES, sampleOf } from './sample-requests.ts'

const ROUTES = Object.keys(SAMPLES)
const WITH_ID = ROUTES.filter((route) => route.includes(':id'))
const isJson = (body: unknown) => typeof body === 'object' && !Buffer.isBuffer(body)

async function startSweep(route: string) {
  const harness = startApp()
  const fixture = await makeFixture(harness)
  const sample = sampleOf(route, fixture)
  const key = route.includes('policy') ? harness.keys.operator : harness.keys.ada
  const { calls } = harness.service
  const before = calls.length
  const send = async (change: { url?: string; body?: string | object; headers?: Record<string, string> }) => {
    const { method, url, body, headers } = { ...sample, ...change }
    const answer = await harness.app.inject({
      method,
      url,
      headers: { ...headers, ...bearer(key) },
      ...(body !== undefined && { body }),
    })
    return { status: answer.statusCode, problem: answer.body.startsWith('{') ? answer.json() : {} }
  }
  return { sample, send, workDone: () => calls.length - before }
}

const withId = (url: string, id: string) => url.replace(/(run|sbx)_[0-9a-f]{32}/, id)
const fieldsOf = (problem: { errors?: { field: string }[] }) => problem.errors?.map(({ field }) => field)

describe('every route with an id', () => {
  test.for(WITH_ID)('%s rejects unknown ids', async (route) => {
    const { sample, send, workDone } = await startSweep(route)
    const absent = `${route.includes('sandboxes') ? 'sbx' : 'run'}_${'0'.repeat(32)}`
    const unknown = await send({ url: withId(sample.url, absent) })
    expect([unknown.status, unknown.problem.code]).toEqual([404, 'not_found'])
    for (const id of ['nonsense', `run_${'g'.repeat(32)}`, `run_${'0'.repeat(33)}`, '%00', "'%20OR%201=1"]) {
      const { status, problem } = await send({ url: withId(sample.url, id) })
      expect([status, fieldsOf(problem)], id).toEqual([400, ['id']])
    }
    expect(workDone()).toBeLessThanOrEqual(1)
  })

  test.for(WITH_ID.filter((route) => route.startsWith('GET')))(
    '%s rejects an unknown query parameter',
    async (route) => {
      if (/workspace$|approvals$|:id$/.test(route)) return
      const { sample, send } = await startSweep(route)
      const { status, problem } = await send({ url: `${sample.url}?colour=red` })
      expect([status, fieldsOf(problem)]).toEqual([400, ['colour']])
    },
  )
})

describe('every route with a JSON body', () => {
  const routes = ROUTES.filter((route) => isJson(SAMPLES[route]?.({} as never).body))

  test('is one that starts, decides or changes something', () => {
    expect(routes.length).toBeGreaterThanOrEqual(11)
  })

  test.for(routes)('%s names an unknown key', async (route) => {
    const { sample, send, workDone } = await startSweep(route)
    const { status, problem } = await send({ body: { ...(sample.body as object), colour: 'red' } })
    expect([status, fieldsOf(problem)]).toEqual([400, ['colour']])
    expect(workDone()).toBe(0)
  })

  test.for(routes)('%s accepts only JSON objects', async (route) => {
    const { send, workDone } = await startSweep(route)
    const json = { 'content-type': 'application/json' }
    const bodies = ['[]', '"text"', 'null', '7', '{', '{"a":1}{"b":2}', '']
    for (const body of bodies) {
      const { status, problem } = await send({ body, headers: json })
      expect([status, problem.code], body).toEqual([400, 'invalid_request'])
    }
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/xml', 'nonsense']) {
      const { status } = await send({ body: '{}', headers: { 'content-type': type } })
      expect(status, type).toBe(415)
    }
    expect(workDone()).toBe(0)
  })

  test.for(routes)('%s limits the size of its body', async (route) => {
    const { send, workDone } = await startSweep(route)
    const headers = { 'content-type': 'application/json', 'content-length': '100000000' }
    const { status, problem } = await send({ body: '{}', headers })
    expect([status, problem.code]).toEqual([413, 'payload_too_large'])
    expect(workDone()).toBe(0)
  })
})
