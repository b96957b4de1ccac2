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

test.for(['SIGTERM', 'SIGINT'])('%s asks to stop, and a second time not to wait', async (signal) => {
  const { signals, stopped, impatience } = begin()
  signals.emit(signal)
  expect(await stopped).toBe(signal)
  expect(impatience()).toBe(0)
  signals.emit(signal)
  expect(impatience()).toBe(1)
})

test('the end of the lifeline asks to stop', async () => {
  const lifeline = new PassThrough()
  const { stopped } = begin(lifeline)
  lifeline.write('what is on it does not matter')
  lifeline.end()
  expect(await stopped).toBe('the lifeline ended')
})

test('a lifeline that breaks asks to stop', async () => {
  const lifeline = new PassThrough()
  const { stopped } = begin(lifeline)
  lifeline.destroy(new Error('EIO'))
  expect(await stopped).toBe('the lifeline ended')
})
