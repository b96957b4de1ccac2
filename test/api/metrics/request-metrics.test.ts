import { expect, it } from 'vitest'
import { createProcessMetrics } from '../../../runtime/api/metrics/process-metrics.ts'
import { bearer, RUN, startApp } from '../harness.ts'

function aRig(options: Parameters<typeof startApp>[0] = {}) {
  const metrics = createProcessMetrics()
  const rig = startApp({ metrics, ...options })
  const page = () => metrics.registry.metrics()
  return { ...rig, page }
}

it('labels requests with the pattern of the route, and never with the URL', async () => {
  const { app, keys, page } = aRig()
  const headers = bearer(keys.ada)

  await app.inject({ url: '/api/runs/run_00000000000000000000000000000000', headers })
  await app.inject({ url: '/api/nothing/of/this/name', headers })
  await app.inject({ url: '/api/runs' })

  const labels = [...(await page()).matchAll(/http_request_duration_seconds_count\{(.*)\} (\d+)/g)]
  expect(labels.map(([, text, count]) => `${text} ${count}`)).toEqual([
    'method="GET",route="/api/runs/:id",status="4xx" 1',
    'method="GET",route="unknown",status="4xx" 1',
    'method="GET",route="/api/runs",status="4xx" 1',
  ])
})

it('counts an event stream that is refused', async () => {
  const { app, keys, page } = aRig({ streams: { perKey: 0, inAll: 100 } })
  const headers = bearer(keys.ada)
  const started = await app.inject({ method: 'POST', url: '/api/runs', headers, payload: RUN })

  const answer = await app.inject({ url: `/api/runs/${started.json().id}/stream`, headers })

  expect(answer.statusCode).toBe(429)
  expect(await page()).toContain('agentweaver_stream_cuts_total{reason="refused"} 1')
})
