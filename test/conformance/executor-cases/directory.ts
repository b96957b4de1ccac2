import { describe, expect, it } from 'vitest'
import type { Subject } from './subject.ts'

export function directoryCases(subject: Subject): void {
  describe('working directory', () => {
    it('starts in the workspace and in folders below it', async () => {
      await subject.site.folder('a dir/b')

      const root = await subject.run('pwd')
      const below = await subject.run('pwd', { directory: 'a dir/../a dir/b' })

      expect(below.stdout).toBe(`${root.stdout.trim()}/a dir/b\n`)
    })

    it.each(['..', '../', 'a/../..', '/', '/etc', '/workspace', '../agentweaver-evil', 'x/../../etc'])(
      'rejects the directory %s by its spelling',
      async (directory) => {
        const outcome = await subject.run('echo ran', { directory })

        expect(outcome).toMatchObject({ exitCode: null, reason: 'spawn_failed', stdout: '' })
        expect(outcome.message).toContain('leads out of the workspace')
      },
    )

    it('rejects a directory that is a link out of the workspace', async () => {
      await subject.site.link('/usr/bin', 'out')
      await subject.site.link('..', 'up')

      const outcomes = [
        await subject.run('echo ran', { directory: 'out' }),
        await subject.run('echo ran', { directory: 'up' }),
      ]

      expect(outcomes.map(({ reason, stdout }) => ({ reason, stdout }))).toEqual(
        Array(2).fill({ reason: 'spawn_failed', stdout: '' }),
      )
      expect(outcomes[0]?.message).toContain('leads out of the workspace')
    })

    it('follows a link inside the workspace', async () => {
      await subject.site.folder('target')
      await subject.site.link('target', 'inside')

      const outcome = await subject.run('basename "$(pwd)"', { directory: 'inside' })

      expect(outcome.stdout).toBe('target\n')
    })

    it('never runs outside while the directory is swapped with a link', async () => {
      const { outside } = subject.site
      const stop = await subject.site.swap('swapped', outside)

      const outcomes = await Promise.all(
        // Asks the kernel. The shell's own `pwd -P` resolves the path again, which is a link by then.
        Array.from({ length: 25 }, () => subject.run('env pwd -P', { directory: 'swapped' })),
      )
      await stop()

      for (const outcome of outcomes) {
        if (outcome.reason === 'spawn_failed') continue
        expect(outcome.stdout).not.toContain(outside)
        // A folder that is deleted while the command runs in it has no path.
        expect(outcome.stdout).toMatch(/^\n?$|swapped\n$/)
      }
    })

    it('fails with the name of a directory that does not exist', async () => {
      const outcome = await subject.run('echo ran', { directory: 'nowhere' })

      expect(outcome).toMatchObject({ reason: 'spawn_failed', stdout: '' })
      expect(outcome.message).toContain('nowhere')
    })

    it('rejects a working directory that is a file', async () => {
      await subject.run('echo x > plain-file')

      expect(await subject.run('echo ran', { directory: 'plain-file' })).toMatchObject({
        reason: 'spawn_failed',
      })
    })
  })
}
