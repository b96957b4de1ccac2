import { expect, it } from 'vitest'
import { completeAll } from '../../runtime/store/complete-all.ts'

it('does every step, and throws the first failure afterwards', async () => {
  const done: number[] = []
  const step = (index: number) => async () => {
    done.push(index)
    if (index > 1) throw new Error(`step ${index}`)
    return index
  }

  await expect(completeAll([step(2), step(1), step(3)])).rejects.toThrow('step 2')
  expect(done).toEqual([2, 1, 3])
  expect(await completeAll([step(1), step(0), step(1)])).toBe(2)
})
