import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import { expect, onTestFinished, test, vi } from 'vitest'
import { stopRequest } from '../../../runtime/api/start/stop-request.ts'

function begin(lifeline?: PassThrough, hasLostParent = () => false) {
  const signals = new EventEmitter()
  let impatience = 0
  const stopped = stopRequest({ signals, lifeline, hasLostParent, onImpatience: () => impatience++ })
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

test('the end of the parent requests a stop', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  let isLost = false
  const { stopped } = begin(undefined, () => isLost)
  const reasons: string[] = []
  void stopped.then((reason) => reasons.push(reason))

  await vi.advanceTimersByTimeAsync(60_000)
  expect(reasons).toEqual([])
  isLost = true
  await vi.advanceTimersByTimeAsync(1_000)

  expect(reasons).toEqual(['the command that started the service has ended'])
})
