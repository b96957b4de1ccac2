import { describe, expect, it } from 'vitest'
import type { Subject } from './subject.ts'

/** Governance reads a command by the grammar of the announced shell: it must be that shell, as it is by itself. */
export function shellCases(subject: Subject): void {
  describe('the shell', () => {
    const runsBash = () => subject.executor.isolation.shell === 'bash'

    it('is the announced one, without posix mode', async () => {
      const outcome = await subject.run(
        'echo "${BASH_VERSION:+bash}:${SHELLOPTS:+${SHELLOPTS//*posix*/posix}}"',
      )

      if (runsBash()) expect(outcome.stdout).toMatch(/^bash:(?!posix)/)
      else expect(outcome.stdout).not.toContain('bash')
    })

    it('reads a line as bash where it is announced', async ({ skip }) => {
      skip(!runsBash(), 'this backend has no bash')

      const outcome = await subject.run(`echo $'\\'; echo no; #'; [[ a == a* ]] && echo yes; : &>/dev/null`)

      expect(outcome).toMatchObject({ stdout: `'; echo no; #\nyes\n`, stderr: '', exitCode: 0 })
    })

    it('expands no alias', async () => {
      const outcome = await subject.run('alias say=echo\nsay hello')

      if (runsBash()) expect(outcome).toMatchObject({ stdout: '', exitCode: 127 })
    })

    it('reads no file and takes no function that its environment names', async () => {
      await subject.run('echo "echo from a file" > start-up')
      const environment = { BASH_ENV: 'start-up', ENV: 'start-up', SHELLOPTS: 'noexec' }

      const outcome = await subject.run('echo from the line', { environment })

      expect(outcome).toMatchObject({ stdout: 'from the line\n', stderr: '', exitCode: 0 })
    })

    it('is the one that SHELL and $0 name', async () => {
      const outcome = await subject.run('echo "$0"; basename "$SHELL"')

      const name = subject.executor.isolation.shell
      expect(outcome.stdout).toBe(`${name}\n${name}\n`)
    })
  })
}
