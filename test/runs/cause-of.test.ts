import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ErrorCode } from '../../contracts/errors.ts'
import type { HostHealth } from '../../contracts/host-health.ts'
import { causeOf, type Suspect, whileAlive } from '../../runtime/api/runs/launch/sandbox-loss.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { until } from '../helpers/until.ts'

/** For a sandbox that settles nothing; where something does settle it, `PATIENTLY` waits for that. */
const SHORTLY = { settleMs: 200, askMs: 10, lookAgainMs: 100 }
const PATIENTLY = { ...SHORTLY, settleMs: 120_000 }
const never = new AbortController().signal
const forever = new Promise<never>(() => undefined)
const fault = (code: ErrorCode) => new SandboxError(code, 'a word')

type Answer = HostHealth['state'] | 'nothing' | 'silence' | 'stranger'

/** A fake sandbox that returns these health results in turn, and then repeats the last one. */
function aSuspect(answers: readonly Answer[], sandbox: Partial<Suspect['sandbox']> = {}) {
  let asked = 0
  const suspect: Suspect = {
    sandbox: { lost: forever, ...sandbox },
    client: {
      health: async (signal) => {
        const answer = answers[Math.min(asked++, answers.length - 1)]
        if (answer === 'silence')
          return new Promise((_resolve, reject) =>
            signal.addEventListener('abort', () => reject(signal.reason)),
          )
        if (answer === 'stranger') throw fault('identity_mismatch')
        if (answer === 'nothing' || answer === undefined) throw fault('sandbox_lost')
        return { state: answer }
      },
    },
  }
  return { suspect, asked: () => asked }
}
const judge = (
  error: unknown,
  { suspect }: ReturnType<typeof aSuspect>,
  { signal = never, timing = SHORTLY } = {},
) => causeOf(error, suspect, { signal, timing })

// The waits between the probes take no time. The limit of one probe (`askMs`) is that of the real clock.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  vi.setTimerTickMode('nextTimerAsync')
})
afterEach(() => {
  vi.useRealTimers()
})

describe('a failure of a sandbox', () => {
  it.each([
    fault('internal'),
    fault('agent_failed'),
    fault('configure_rejected'),
    fault('deadline_exceeded'),
    new TypeError('terminated'),
  ])('is kept if the sandbox is alive: %s', async (error) => {
    expect(await judge(error, aSuspect(['ready']))).toBe(error)
  })

  it('is kept if the sandbox is spent but alive', async () => {
    const error = fault('configure_rejected')

    expect(await judge(error, aSuspect(['failed']))).toBe(error)
  })

  it('is kept if the sandbox was only slow to respond', async () => {
    const error = fault('agent_failed')
    const suspect = aSuspect(['silence', 'nothing', 'ready'])

    expect(await judge(error, suspect, { timing: PATIENTLY })).toBe(error)
    expect(suspect.asked()).toBe(3)
  })

  it.each(['internal', 'agent_failed', 'configure_rejected', 'not_configured'] as const)(
    'is the loss of a sandbox that says it leaves, or nothing at all: %s',
    async (code) => {
      for (const answer of ['leaving', 'nothing', 'silence'] as const)
        expect(await judge(fault(code), aSuspect([answer]))).toMatchObject({ code: 'sandbox_lost' })
    },
  )

  it('becomes sandbox_lost if the provider reports the loss during the probes, with its message', async () => {
    const { promise: lost, resolve: lose } = Promise.withResolvers<string>()
    const suspect = aSuspect(['leaving'], { lost })

    const judged = judge(new Error('x'), suspect, { timing: PATIENTLY })
    await until('the sandbox was probed twice', () => suspect.asked() > 1)
    lose('the pod is gone')

    expect(await judged).toMatchObject({ code: 'sandbox_lost', message: 'the pod is gone' })
  })

  it('becomes sandbox_lost if the pod is being deleted, even if the sandbox still responds', async () => {
    const dying = aSuspect(['ready'], { howLost: async () => 'the pod is being deleted' })

    expect(await judge(fault('agent_failed'), dying)).toMatchObject({
      code: 'sandbox_lost',
      message: 'the pod is being deleted',
    })
  })

  it('is judged by the sandbox alone if its provider cannot be asked', async () => {
    const error = fault('agent_failed')
    const howLost = async () => {
      throw new Error('the API server responded with 500')
    }

    expect(await judge(error, aSuspect(['ready'], { howLost }))).toBe(error)
    expect(await judge(error, aSuspect(['nothing'], { howLost }))).toMatchObject({ code: 'sandbox_lost' })
  })

  it('stays identity_mismatch while another host responds at its address and the pod exists', async () => {
    const error = fault('identity_mismatch')
    const keeper = (how?: string) => ({ howLost: async () => how })

    expect(await judge(error, aSuspect(['stranger'], keeper()))).toBe(error)
    expect(await judge(error, aSuspect(['stranger'], keeper('the pod is gone')))).toMatchObject({
      code: 'sandbox_lost',
    })
  })

  it.each(['nothing', 'silence'] as const)(
    'becomes sandbox_lost if a dead pod failed the identity check and the next probe finds %s',
    async (then) => {
      const error = fault('identity_mismatch')

      const dying = aSuspect(['stranger', then], { howLost: async () => undefined })
      const cause = await judge(error, dying)

      // The message still contains the wrong identity.
      expect(cause).toMatchObject({ code: 'sandbox_lost', message: expect.stringContaining('a word') })
    },
  )

  it.each(['sandbox_lost', 'agent_stall_timeout', 'credential_absent', 'conflict'] as const)(
    'is not probed if its code already names the cause: %s',
    async (code) => {
      const suspect = aSuspect(['nothing'])
      const error = fault(code)

      expect(await judge(error, suspect)).toBe(error)
      expect(suspect.asked()).toBe(0)
    },
  )

  it('waits for nothing once the run has ended', async () => {
    const ended = new AbortController()
    const error = fault('agent_failed')
    const judged = judge(error, aSuspect(['leaving']), { signal: ended.signal, timing: PATIENTLY })

    ended.abort(fault('run_ended'))

    expect(await judged).toBe(error)
  })
})

describe('work that needs a living sandbox', () => {
  it('is aborted as soon as the sandbox is lost, even if the sandbox does not respond', async () => {
    const { suspect } = aSuspect(['silence'], { lost: Promise.resolve('the pod was killed') })

    const work = whileAlive(
      suspect,
      never,
      (signal) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    )

    await expect(work).rejects.toMatchObject({ code: 'sandbox_lost', message: 'the pod was killed' })
  })
})
