import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { Turns } from '../../runtime/api/http/turns.ts'

it('lets a few streams continue in each turn of the event loop, in the order of their requests', async () => {
  const turns = new Turns()
  const went: number[] = []
  for (let stream = 0; stream < 10; stream++) void turns.next().then(() => went.push(stream))

  const perTurn: number[] = []
  for (let before = 0; before < 10; before = went.length) {
    await nextTurn()
    perTurn.push(went.length - before)
  }

  expect(went).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(4)
})
