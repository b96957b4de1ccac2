import { expect, it, onTestFinished, vi } from 'vitest'
import { createProgress } from '../../cli/terminal/progress.ts'
import { queueReason, queueWords } from '../../cli/view/queue-words.ts'

const NOW = Date.parse('2026-01-01T00:00:00.000Z')

it('names the position, and the expected start only if it is known', () => {
  expect(queueWords({ position: 3 }, NOW)).toBe('#3')
  expect(queueWords({ position: 3, estimatedStart: '2026-01-01T00:01:30.000Z' }, NOW)).toBe(
    '#3, starts in about 1 min 30 s',
  )
})

it('starts "in about 1 s" if the expected start has passed, and names no fractions', () => {
  expect(queueWords({ position: 1, estimatedStart: '2025-12-31T23:00:00.000Z' }, NOW)).toContain('about 1 s')
  expect(queueWords({ position: 1, estimatedStart: '2026-01-01T00:00:40.300Z' }, NOW)).toContain('about 40 s')
})

it('names the restriction for which a run waits', () => {
  const frozen = {
    scope: { kind: 'all' },
    level: 'frozen',
    reason: 'incident 42',
    by: 'ada',
    role: 'operator',
    at: '2026-01-01T00:00:00.000Z',
  } as const

  expect(queueReason({})).toBe('waits for a free place')
  expect(queueReason({ restrictions: [{ ...frozen, level: 'read-only' }] })).toBe('waits for a free place')
  expect(queueReason({ restrictions: [frozen] })).toContain(
    'is lifted (frozen by ada for all runs: incident 42)',
  )
})

it('is shown in the progress line, whose time continues', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  let now = 0
  let written = ''
  using progress = createProgress({ isTTY: true, write: (text) => (written += text) }, () => now)

  progress.waitFor('waiting for a sandbox')
  now = 5_000
  progress.update('in the queue: #2')
  await vi.advanceTimersByTimeAsync(250)

  expect(written).toContain('in the queue: #2 … 5 s')
})
