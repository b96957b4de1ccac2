import { describe, expect, it } from 'vitest'
import type { Subject } from './subject.ts'

/** The end of a command: either an exit code or a signal, and the first reason. */
export function endingCases(subject: Subject): void {
  describe('endings', () => {
    it.each([0, 1, 3, 126, 127, 128, 137, 255])('returns the exit code %i unchanged', async (code) => {
      const outcome = await subject.run(`exit ${code}`)

      expect(outcome).toMatchObject({ exitCode: code, signal: null, reason: 'exit', timedOut: false })
    })

    it.each(['KILL', 'TERM', 'HUP', 'SEGV', 'ABRT', 'USR1'])(
      'returns the signal SIG%s that killed the command',
      async (name) => {
        const outcome = await subject.run(`kill -${name} $$`)

        expect(outcome).toMatchObject({ exitCode: null, signal: `SIG${name}`, reason: 'signal' })
      },
    )

    it('keeps the exit code with which a shell reports a child killed by a signal', async () => {
      const outcome = await subject.run("sh -c 'kill -KILL $$'; exit $?")

      expect(outcome).toMatchObject({ exitCode: 137, signal: null, reason: 'exit' })
    })

    it('returns 127 for a program that does not exist', async () => {
      const outcome = await subject.run('surely-no-such-program-anywhere')

      expect(outcome.exitCode).toBe(127)
      expect(outcome.stderr).toContain('not found')
    })

    it('runs a command that starts with a dash', async () => {
      const outcome = await subject.run('-n; echo after')

      expect(outcome.stdout).toBe('after\n')
    })

    it('never reports success if the command attacks its supervisor', async () => {
      const outcome = await subject.run('kill -KILL $PPID; exit 3')

      if (outcome.reason === 'exit') expect(outcome.exitCode).toBe(3)
      else expect(outcome).toMatchObject({ exitCode: null, reason: 'signal', signal: 'SIGKILL' })
    })

    it('measures the duration of the command', async () => {
      const outcome = await subject.run('sleep 0.2')

      expect(outcome.durationMs).toBeGreaterThanOrEqual(200)
    })

    it("runs a hundred commands at once and returns each one's own result", async () => {
      const numbers = Array.from({ length: 100 }, (_, index) => index)

      const outcomes = await Promise.all(
        numbers.map((number) => subject.run(`echo ${number}; exit ${number}`)),
      )

      expect(outcomes.map(({ stdout }) => stdout)).toEqual(numbers.map((number) => `${number}\n`))
      expect(outcomes.map(({ exitCode }) => exitCode)).toEqual(numbers)
    })
  })
}
