import { expect, test } from 'vitest'
import { atRest } from '../../runtime/agent-host/session/at-rest.ts'

test('returns the content if nothing changed during the read', async () => {
  expect(
    await atRest(
      () => 't1 t1.1',
      async () => 'session',
    ),
  ).toBe('session')
})

test('rejects a read during which a call was decided', async () => {
  let state = 't1 t1.1'
  const read = atRest(
    () => state,
    async () => {
      state = 't1 t1.2'
      return 'half a session'
    },
  )

  await expect(read).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining('went on') })
})

test('reads nothing in a state in which reading is not allowed', async () => {
  let reads = 0
  const read = atRest(
    () => {
      throw new Error('a call runs')
    },
    async () => {
      reads += 1
    },
  )

  await expect(read).rejects.toThrow('a call runs')
  expect(reads).toBe(0)
})
