import { expect, it } from 'vitest'
import { BYTES_PER_RUN, ByteBudgets } from '../../runtime/api/egress/byte-budgets.ts'

it('gives each state the remaining bytes of its runs, over all sandboxes and restarts of the proxy', () => {
  const budgets = new ByteBudgets()
  const generation = (runId: string, number: number) => ({
    runId,
    generation: number,
    phase: 'work' as const,
    socketPath: '/socket',
    destinations: [],
  })
  const left = () =>
    budgets
      .applyTo({ revision: 1, generations: [generation('a', 1), generation('a', 2), generation('b', 1)] })
      .generations.map(({ bytesLeft }) => bytesLeft)
  const [all = 0] = left()

  budgets.add('a', 10)
  budgets.add('a', 20)
  expect(left()).toEqual([all - 30, all - 30, all])
  budgets.add('b', all + 1)

  expect(left()).toEqual([all - 30, all - 30, 0])
})

it('reports when 50, 80 and 100 percent of the bytes of a run are used, and each once', () => {
  const budgets = new ByteBudgets()
  const tenth = Math.ceil(BYTES_PER_RUN / 10)

  const reported = Array.from({ length: 12 }, () => budgets.add('a', tenth)?.used)

  expect(reported.map((used) => used && used / tenth)).toEqual(
    [...Array(4), 5, ...Array(2), 8, undefined, 10, ...Array(2)].map((tenths) => tenths),
  )
  expect(budgets.add('b', 10 * tenth)).toMatchObject({ kind: 'bytes', limit: BYTES_PER_RUN })
})
