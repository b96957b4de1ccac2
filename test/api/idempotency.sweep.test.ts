import { describe, expect, test } from 'vitest'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { bearer, type Harness, RUN, startApp } from './harness.ts'
import { makeFixture, SAMPLES, sampleOf } from './sample-requests.ts'

// The secret of a key is not stored, so a repeated response cannot have it: see `api-keys.test.ts`. Setting a credential
// again changes nothing, and neither does erasing data again. A proposal changes nothing at all.
const MUTATIONS = Object.keys(SAMPLES).filter(
  (route) =>
    !route.startsWith('GET ') && !/\/api\/(?:keys|me\/credentials|data|sandbox-policy\/proposal)/.test(route),
)

const startRun = ({ app, keys }: Harness, headers: Record<string, string>, body: object = RUN) =>
  app.inject({ method: 'POST', url: '/api/runs', headers: { ...bearer(keys.ada), ...headers }, body })

describe('a mutation with an idempotency key', () => {
  test.for(MUTATIONS)('%s is executed once and returns the same response again', async (route) => {
    const harness = startApp()
    const { app, keys, service } = harness
    const sample = sampleOf(route, await makeFixture(harness))
    const key = route.includes('policy') ? keys.operator : keys.ada
    const send = (body = sample.body) =>
      app.inject({
        method: sample.method,
        url: sample.url,
        headers: { ...sample.headers, ...bearer(key), 'idempotency-key': 'k1' },
        ...(body !== undefined && { body }),
      })
    // when
    const before = service.calls.length
    const first = await send()
    const second = await send()
    // then
    expect(first.statusCode).toBeLessThan(300)
    expect(first.headers['idempotent-replayed']).toBeUndefined()
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect([second.statusCode, second.body]).toEqual([first.statusCode, first.body])
    expect(service.calls.length).toBe(before + 1)
    // and another request with the same key is rejected
    if (sample.otherBody === undefined) return
    const other = await send(sample.otherBody)
    expect([other.statusCode, other.json().code]).toEqual([409, 'idempotency_mismatch'])
    expect(service.calls.length).toBe(before + 1)
  })

  test('a key belongs to its owner', async () => {
    const harness = startApp()
    const mine = await startRun(harness, { 'idempotency-key': 'k1' })
    const theirs = await startRun(harness, { 'idempotency-key': 'k1', ...bearer(harness.keys.bob) })
    expect(theirs.json().id).not.toBe(mine.json().id)
  })

  test('without a key every request is executed', async () => {
    const harness = startApp()
    const [first, second] = [await startRun(harness, {}), await startRun(harness, {})]
    expect(second.json().id).not.toBe(first.json().id)
  })

  test('a rejected request does not use up the key', async () => {
    const harness = startApp()
    harness.service.fail(new SandboxError('too_many_runs', 'full'))
    expect((await startRun(harness, { 'idempotency-key': 'k1' })).statusCode).toBe(429)
    expect((await startRun(harness, { 'idempotency-key': 'k1' })).statusCode).toBe(202)
  })

  test('the response is still there after a restart', async () => {
    const before = startApp()
    const first = await startRun(before, { 'idempotency-key': 'k1' })
    const after = startApp({ store: before.store })
    // when the next process gets the request again, with the same store
    const second = await startRun({ ...after, keys: before.keys }, { 'idempotency-key': 'k1' })
    // then
    expect(second.json()).toEqual(first.json())
    expect(after.service.calls).toEqual([])
  })

  test('a repeated request may omit a field that the first one set to its default', async () => {
    const harness = startApp()
    const first = await startRun(harness, { 'idempotency-key': 'k1' }, { ...RUN, interactive: false })
    const second = await startRun(harness, { 'idempotency-key': 'k1' })
    expect(second.json().id).toBe(first.json().id)
  })

  test.for(['', 'has space', 'ü', 'x'.repeat(256)])('rejects the key %j', async (key) => {
    const answer = await startRun(startApp(), { 'idempotency-key': key })
    expect(answer.statusCode).toBe(400)
    expect(answer.json().errors).toEqual([{ field: 'idempotency-key', message: expect.any(String) }])
  })
})
