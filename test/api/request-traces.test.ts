import { expect, test } from 'vitest'
import type { TracedRequest, Tracing } from '../../runtime/api/tracing/tracing.ts'
import { bearer, RUN, startApp } from './harness.ts'

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

function traced(options: { rateLimitPerMinute?: number } = {}) {
  const requests: TracedRequest[] = []
  const ended: number[] = []
  const tracing: Tracing = {
    startRequest(request) {
      requests.push(request)
      return { traceparent: TRACEPARENT, end: (status) => ended.push(status) }
    },
    note: () => undefined,
    close: async () => undefined,
  }
  return { ...startApp({ tracing, ...options }), requests, ended }
}

const start = ({ app }: Pick<ReturnType<typeof traced>, 'app'>, headers: Record<string, string>) =>
  app.inject({
    method: 'POST',
    url: '/api/runs',
    headers: { traceparent: TRACEPARENT, ...headers },
    body: RUN,
  })

test('a request with a key is traced, below the trace of the client', async () => {
  const { app, keys, requests, ended } = traced()

  await start({ app }, bearer(keys.ada))
  await app.inject({ url: '/api/runs', headers: { traceparent: TRACEPARENT, ...bearer(keys.ada) } })
  await app.inject({ url: '/api/runs', headers: bearer(keys.ada) })

  expect(requests.map(({ method, route, traceparent }) => [method, route, traceparent])).toEqual([
    ['POST', '/api/runs', TRACEPARENT],
    ['GET', '/api/runs', TRACEPARENT],
  ])
  expect(ended).toEqual([202, 200])
})

test('a request without a valid key makes no trace', async () => {
  const { app, requests } = traced()

  const answers = [
    await start({ app }, {}),
    await start({ app }, bearer('awk_wrong')),
    await app.inject({ url: '/healthz', headers: { traceparent: TRACEPARENT } }),
    await app.inject({ url: '/api/sign-in', headers: { traceparent: TRACEPARENT } }),
    await app.inject({ url: '/nowhere', headers: { traceparent: TRACEPARENT } }),
  ]

  expect(answers.map(({ statusCode }) => statusCode)).toEqual([401, 401, 200, 200, 404])
  expect(requests).toEqual([])
})

test('a request beyond the rate limit makes no trace', async () => {
  const { app, keys, requests } = traced({ rateLimitPerMinute: 1 })

  const statuses = [await start({ app }, bearer(keys.ada)), await start({ app }, bearer(keys.ada))]

  expect(statuses.map(({ statusCode }) => statusCode)).toEqual([202, 429])
  expect(requests).toHaveLength(1)
})
