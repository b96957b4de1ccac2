import { expect, it, onTestFinished, vi } from 'vitest'
import { TurnWatch } from '../../runtime/agents/copilot/turn-watch.ts'

const LIMITS = { turnMs: 10_000, idleMs: 1_000, startMs: 1, cancelMs: 1 }

function aWatch() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const turn = { turnId: 't', prompt: 'p', signal: new AbortController().signal, emit: () => undefined }
  const open = () => Promise.reject(new Error('no model'))
  const config = { name: 'm', charter: undefined, server: 's', credential: 'c', open }
  const watch = new TurnWatch({ turn, limits: LIMITS, config, generation: 1 })
  onTestFinished(() => {
    watch.dispose()
    vi.useRealTimers()
  })
  return watch
}

it('pauses the turn and idle limits while the run is frozen, and resumes both', async () => {
  const watch = aWatch()
  vi.advanceTimersByTime(900)
  const resume = watch.pause({ isFrozen: true })
  vi.advanceTimersByTime(7 * 24 * 3_600_000)
  expect(watch.hasEnded).toBe(false)
  resume()

  const keep = watch.pause({ isFrozen: false })
  vi.advanceTimersByTime(LIMITS.turnMs - 901)
  expect(watch.hasEnded).toBe(false)
  vi.advanceTimersByTime(1)
  keep()

  expect(await watch.ended).toMatchObject({ code: 'deadline_exceeded' })
})

it('pauses only the idle limit while a request waits for a busy server', async () => {
  const watch = aWatch()
  const resume = watch.pause({ isFrozen: false })
  vi.advanceTimersByTime(5 * LIMITS.idleMs)
  expect(watch.hasEnded).toBe(false)
  resume()

  vi.advanceTimersByTime(LIMITS.idleMs)

  expect(await watch.ended).toMatchObject({ code: 'agent_stall_timeout' })
})
