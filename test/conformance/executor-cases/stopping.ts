import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { ExecRequest } from '../../../contracts/exec.ts'
import { GRACE_MS } from '../../../runtime/executors/process/supervise.ts'
import { until } from '../../helpers/until.ts'
import { withoutDeadline } from '../../helpers/without-deadline.ts'
import type { Subject } from './subject.ts'

/** A `sleep` with arguments that identify it among all processes of the machine. */
function aMarkedSleep() {
  const mark = `86400.${BigInt(`0x${randomUUID().slice(0, 8)}`)}`
  return { mark, command: `sleep ${mark}` }
}

/** A busy machine may need longer than the first timeouts to start a command. */
const TIMEOUTS_MS = [1_000, 4_000, 16_000, 64_000]

export function stoppingCases(subject: Subject): void {
  const isRunning = async (mark: string) => (await subject.site.countProcesses(`sleep\0${mark}`)) > 0
  const untilGone = (mark: string) => until(`no process names ${mark}`, async () => !(await isRunning(mark)))

  /** Runs a command into its timeout. Repeats with a longer timeout if the command had not started yet. */
  const intoTimeout = async (command: string, said: string) => {
    for (const timeoutMs of TIMEOUTS_MS) {
      const outcome = await subject.run(command, { timeoutMs })
      if (outcome.stdout.startsWith(said)) return outcome
    }
    throw new Error(`the command did not say "${said}" within ${TIMEOUTS_MS.at(-1)} ms`)
  }

  const isSeenDuring = async (running: Promise<unknown>, mark: string) => {
    let over = false
    const end = () => {
      over = true
    }
    running.then(end, end)
    let seen = false
    await until(
      'the survivor runs, or its command has ended',
      async () => {
        seen = await isRunning(mark)
        return seen || over
      },
      120_000,
    )
    return seen
  }

  // Runs concurrently, because each test waits for its own timeout. In a pod commands run one after another.
  describe('stopping', { concurrent: subject.isLocal }, () => {
    it('stops a command at its timeout and keeps its output', async () => {
      const outcome = await intoTimeout('echo partial; sleep 600', 'partial')

      expect(outcome).toMatchObject({
        stdout: 'partial\n',
        timedOut: true,
        reason: 'timeout',
        signal: 'SIGTERM',
      })
    })

    it('kills a command that ignores SIGTERM', async () => {
      const outcome = await intoTimeout('trap "" TERM; echo deaf; while :; do sleep 0.05; done', 'deaf')

      expect(outcome).toMatchObject({ stdout: 'deaf\n', signal: 'SIGKILL', reason: 'timeout' })
    })

    it.each([
      ['a child in the background', (sleep: string) => `${sleep} & ${sleep}`],
      [
        'a child that ignores signals',
        (sleep: string) => `sh -c 'trap "" TERM HUP INT; ${sleep}' & sleep 60`,
      ],
      [
        'a daemon that forked twice',
        (sleep: string) => `(setsid ${sleep} </dev/null >/dev/null 2>&1 &); sleep 60`,
      ],
      ['a child in its own session', (sleep: string) => `setsid ${sleep} & sleep 60`],
    ])('leaves no survivor of a timeout: %s', async (_what, command) => {
      let seen = false
      for (const timeoutMs of TIMEOUTS_MS) {
        const sleep = aMarkedSleep()
        const running = subject.run(command(sleep.command), { timeoutMs })
        seen = await isSeenDuring(running, sleep.mark)

        expect((await running).reason).toBe('timeout')
        await untilGone(sleep.mark)
        if (seen) break
      }
      expect(seen, 'the survivor ran').toBe(true)
    })

    it('leaves no survivor of a command that ended by itself', async () => {
      const sleep = aMarkedSleep()

      const outcome = await subject.run(
        `(setsid ${sleep.command} >/dev/null 2>&1 &); ${sleep.command} & echo bye`,
      )

      expect(outcome).toMatchObject({ stdout: 'bye\n', exitCode: 0 })
      await untilGone(sleep.mark)
    })

    it('ends with the command although a child still holds its output open', async () => {
      const outcome = await subject.run('sleep 600 & echo bye')

      expect(outcome).toMatchObject({ stdout: 'bye\n', reason: 'exit' })
    })

    it('cancels a running command', async () => {
      const sleep = aMarkedSleep()
      const stop = new AbortController()
      const running = subject.run(`echo partial; ${sleep.command}`, { signal: stop.signal })
      await until('the command runs', () => isRunning(sleep.mark))

      stop.abort()

      expect(await running).toMatchObject({ reason: 'cancelled', timedOut: false, stdout: 'partial\n' })
      await untilGone(sleep.mark)
    })

    it('does not start a command that is already cancelled', async () => {
      const outcome = await subject.run('echo ran > cancelled-before', { signal: AbortSignal.abort() })

      expect(outcome).toMatchObject({ reason: 'cancelled', exitCode: null })
      expect((await subject.run('cat cancelled-before')).exitCode).not.toBe(0)
    })

    it('keeps the first reason if a cancel follows the timeout', async () => {
      const command = 'trap "echo asked" TERM; while :; do sleep 0.05; done'
      let isAsked = false
      for (const timeoutMs of TIMEOUTS_MS) {
        const stop = new AbortController()
        const result = await subject.executor.run(ExecRequest.parse({ command, timeoutMs }), {
          signal: stop.signal,
          onChunk: () => {
            isAsked = true
            stop.abort()
          },
        })

        expect(result.reason).toBe('timeout')
        if (isAsked) break
      }
      expect(isAsked, 'the cancel followed').toBe(true)
    })

    it('does not start a command whose start takes longer than its timeout', async () => {
      const outcome = await subject.run('echo ran > too-late; sleep 1', { timeoutMs: 1 })

      expect(outcome).toMatchObject({ reason: 'timeout', timedOut: true })
    })
  })

  describe('stopping with SIGTERM', () => {
    // On this machine SIGKILL is disabled here, so that only SIGTERM can end the command.
    const killNever = () => subject.isLocal && withoutDeadline(GRACE_MS)

    it('lets a command that handles SIGTERM clean up', async () => {
      killNever()
      const command = 'trap "echo cleaned; exit 9" TERM; echo ready; while :; do sleep 0.05; done'

      const outcome = await intoTimeout(command, 'ready')

      expect(outcome).toMatchObject({ stdout: 'ready\ncleaned\n', exitCode: 9, reason: 'timeout' })
    })

    it.each([
      ['a process that starts later', '"sleep 600; exit 7"', { exitCode: 7, signal: null }],
      ['a program that a process executes later', '"exec sleep 600"', { exitCode: null, signal: 'SIGTERM' }],
    ])('sends SIGTERM to %s too, without waiting for SIGKILL', async (_what, onTerm, end) => {
      killNever()
      const stop = new AbortController()
      const command = `trap ${onTerm} TERM; echo ready; while :; do sleep 0.05; done`

      const result = await subject.executor.run(ExecRequest.parse({ command, timeoutMs: 120_000 }), {
        signal: stop.signal,
        onChunk: () => stop.abort(),
      })

      expect(result).toMatchObject({ reason: 'cancelled', ...end })
    })
  })
}
