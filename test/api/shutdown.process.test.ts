import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { bearer, listen, RUN, startApp } from './harness.ts'

/** The app with a start of a run that waits until the test releases it. */
async function startSlowApp() {
  const harness = startApp()
  const url = await listen(harness)
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
  const startRun = harness.service.startRun.bind(harness.service)
  harness.service.startRun = async (...args) => {
    reach()
    await held
    return startRun(...args)
  }
  const headers = { ...bearer(harness.keys.ada), 'content-type': 'application/json' }
  const post = () => fetch(`${url}/api/runs`, { method: 'POST', headers, body: JSON.stringify(RUN) })
  return { ...harness, url, release, reached, post }
}

test('a request that is in progress when the service stops gets its response', async () => {
  const { app, service, release, reached, post } = await startSlowApp()
  const answer = post()
  await reached
  // when
  const closed = app.close()
  await expect.poll(() => service.closed).toBe(true)
  release()
  // then
  expect((await answer).status).toBe(202)
  await closed
})

test('a request during the stop gets an error that says so', async () => {
  const { app, service, release, reached, post } = await startSlowApp()
  const first = post()
  await reached
  const closed = app.close()
  await expect.poll(() => service.closed).toBe(true)
  // when
  const answer = await post()
  // then
  expect(answer.status).toBe(503)
  expect(answer.headers.get('retry-after')).toBe('1')
  expect(await answer.json()).toMatchObject({ code: 'unavailable' })
  release()
  await Promise.all([first, closed])
})

test('idle connections do not delay the stop', async () => {
  const harness = startApp()
  const { port } = new URL(await listen(harness))
  const silent = connect(Number(port), '127.0.0.1')
  silent.on('error', () => undefined)
  onTestFinished(() => void silent.destroy())
  await once(silent, 'connect')
  const gone = once(silent, 'close')
  await harness.app.close()
  await gone
  expect(harness.app.server.listening).toBe(false)
})

test('a request before the service has started waits', async () => {
  const { promise: started, resolve: markStarted } = Promise.withResolvers<void>()
  const harness = startApp({ started })
  const health = await harness.app.inject({ url: '/healthz' })
  let status = 0
  const early = harness.app.inject({ url: '/api/runs', headers: bearer(harness.keys.ada) }).then((answer) => {
    status = answer.statusCode
  })
  expect(health.statusCode).toBe(200)
  expect(status).toBe(0)
  markStarted()
  await early
  expect(status).toBe(200)
})
