import { describe, expect, it } from 'vitest'
import type { Subject } from './subject.ts'

/** Governance parses commands for the reported shell, so exactly that shell must run them, unmodified. */
export function shellCases(subject: Subject): void {
  describe('the shell', () => {
    const runsBash = () => subject.executor.isolation.shell === 'bash'

    it('is the reported one, without POSIX mode', async () => {
      const outcome = await subject.run(
        'echo "${BASH_VERSION:+bash}:${SHELLOPTS:+${SHELLOPTS//*posix*/posix}}"',
      )

      if (runsBash()) expect(outcome.stdout).toMatch(/^bash:(?!posix)/)
      else expect(outcome.stdout).not.toContain('bash')
    })

    it('parses commands as bash if bash is reported', async ({ skip }) => {
      skip(!runsBash(), 'this backend has no bash')

      const outcome = await subject.run(`echo $'\\'; echo no; #'; [[ a == a* ]] && echo yes; : &>/dev/null`)

      expect(outcome).toMatchObject({ stdout: `'; echo no; #\nyes\n`, stderr: '', exitCode: 0 })
    })

    it('does not expand aliases', async () => {
      const outcome = await subject.run('alias say=echo\nsay hello')

      if (runsBash()) expect(outcome).toMatchObject({ stdout: '', exitCode: 127 })
    })

    it('reads no start-up files and imports no functions from its environment', async () => {
      await subject.run('echo "echo from a file" > start-up')
      const environment = { BASH_ENV: 'start-up', ENV: 'start-up', SHELLOPTS: 'noexec' }

      const outcome = await subject.run('echo from the line', { environment })

      expect(outcome).toMatchObject({ stdout: 'from the line\n', stderr: '', exitCode: 0 })
    })

    it('matches SHELL and $0', async () => {
      const outcome = await subject.run('echo "$0"; basename "$SHELL"')

      const name = subject.executor.isolation.shell
      expect(outcome.stdout).toBe(`${name}\n${name}\n`)
    })
  })
}
