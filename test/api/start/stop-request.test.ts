import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { stopRequest } from '../../../runtime/api/start/stop-request.ts'

function begin(lifeline?: PassThrough) {
  const signals = new EventEmitter()
  let impatience = 0
  const stopped = stopRequest({ signals, lifeline, onImpatience: () => impatience++ })
  return { signals, stopped, impatience: () => impatience }
}

test.for(['SIGTERM', 'SIGINT'])('%s requests a stop, and a second one an immediate stop', async (signal) => {
  const { signals, stopped, impatience } = begin()
  signals.emit(signal)
  expect(await stopped).toBe(signal)
  expect(impatience()).toBe(0)
  signals.emit(signal)
  expect(impatience()).toBe(1)
})

test('the end of the lifeline requests a stop', async () => {
  const lifeline = new PassThrough()
  const { stopped } = begin(lifeline)
  lifeline.write('what is on it does not matter')
  lifeline.end()
  expect(await stopped).toBe('the lifeline ended')
})

test('a broken lifeline requests a stop', async () => {
  const lifeline = new PassThrough()
  const { stopped } = begin(lifeline)
  lifeline.destroy(new Error('EIO'))
  expect(await stopped).toBe('the lifeline ended')
})

test('a signal after the end of the lifeline is not an immediate stop; another one is', async () => {
  const lifeline = new PassThrough()
  const { signals, stopped, impatience } = begin(lifeline)
  lifeline.end()
  await stopped
  signals.emit('SIGTERM')
  expect(impatience()).toBe(0)
  signals.emit('SIGTERM')
  expect(impatience()).toBe(1)
})
