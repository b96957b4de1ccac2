import { expect, it } from 'vitest'
import { limitLookUps } from '../../runtime/egress/look-ups.ts'

it('runs a limited number of look-ups at the same time, also if some fail', async () => {
  const started: PromiseWithResolvers<string[]>[] = []
  const resolve = limitLookUps(() => {
    const look = Promise.withResolvers<string[]>()
    started.push(look)
    return look.promise
  }, 2)

  const all = ['a', 'b', 'c', 'd'].map((name) => resolve(name).catch(() => 'failed'))
  expect(started).toHaveLength(2)
  started[0]?.reject(new Error('no'))
  expect(await all[0]).toBe('failed')
  expect(started).toHaveLength(3)
  for (const look of started) look.resolve(['10.0.0.1'])
  await Promise.all([all[1], all[2]])
  expect(started).toHaveLength(4)
  started[3]?.resolve([])

  expect(await all[3]).toEqual([])
})
