import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from './site.ts'
import type { Subject } from './subject.ts'

const SECRET = 'the-secret-words'

export function fileAccessCases(subject: Subject): void {
  describe('environment', () => {
    it("passes the request's variables, with any characters", async () => {
      const environment = { PLAIN: 'a', QUOTED: `it's "$HOME" \`x\` \\ \n end`, EMPTY: '' }

      const outcome = await subject.run('printf "%s|%s|%s" "$PLAIN" "$QUOTED" "$EMPTY"', { environment })

      expect(outcome.stdout).toBe(`a|${environment.QUOTED}|`)
    })

    it('passes a large value', async () => {
      const outcome = await subject.run('printf %s "$BIG" | wc -c', {
        environment: { BIG: 'x'.repeat(100_000) },
      })

      expect(outcome.stdout.trim()).toBe('100000')
    })

    it('returns an error for a value that no program can receive', async () => {
      const outcome = await subject.run('true', { environment: { BIG: 'x'.repeat(131_072) } })

      if (outcome.reason === 'exit') expect([126, 127]).toContain(outcome.exitCode)
      else expect(outcome).toMatchObject({ exitCode: null, reason: 'spawn_failed', stdout: '' })
    })

    it('provides a home folder, a PATH with the tool folders, and a temporary folder', async () => {
      const outcome = await subject.run('test -w "$HOME" && test -w "$TMPDIR" && node -p process.version')

      expect(outcome.stdout).toBe(`${process.version}\n`)
    })

    it('contains nothing from the host, in any process that the command can see', async () => {
      process.env['AGENTWEAVER_TEST_CANARY'] = SECRET

      const outcome = await subject.run('env; tr "\\0" "\\n" < /proc/$PPID/environ')

      delete process.env['AGENTWEAVER_TEST_CANARY']
      expect(outcome.stdout).toContain('PATH=')
      expect(outcome.stdout).not.toContain(SECRET)
    })

    it('cannot affect the launchers through the dynamic loader', async () => {
      const command = 'echo fine'

      const outcome = await subject.run(command, {
        environment: {
          LD_PRELOAD: '/workspace/evil.so',
          LD_AUDIT: '/workspace/evil.so',
          BASH_ENV: '/workspace/evil',
        },
      })

      // The loader warns once per program of the command, and for no other program.
      expect(outcome).toMatchObject({ exitCode: 0, stdout: 'fine\n' })
    })
  })

  describe.skipIf(!subject.supports.ownRoot)('files of the workspace', () => {
    beforeEach(async () => {
      await rm(join(subject.workspace, 'kept'), { recursive: true, force: true })
      await mkdir(join(subject.workspace, 'kept/deep/er'), { recursive: true })
      await writeFile(join(subject.workspace, 'kept/file'), SECRET)
      await writeFile(join(subject.workspace, 'kept/deep/er/file'), SECRET)
    })

    const kept = () => readFileSync(join(subject.workspace, 'kept/file'), 'utf8')

    it('are written as the user of the service', async () => {
      const outcome = await subject.run('echo hello > kept/new && id -u')

      expect(outcome.stdout.trim()).toBe('1000')
      expect(readFileSync(join(subject.workspace, 'kept/new'), 'utf8')).toBe('hello\n')
    })

    it.each([
      ['a folder', ['kept']],
      ['the workspace', ['.']],
      ['the workspace and a file in it', ['kept/file', '.']],
    ])('can be read but not written if %s is read-only', async (_what, readOnly) => {
      const attempts =
        'cat kept/file; echo x > kept/file; rm -f kept/file; echo x > kept/deep/er/new; chmod 777 kept/file'

      const outcome = await subject.run(attempts, { readOnly })
      const control = await subject.run('echo changed > kept/file')

      expect(outcome.stdout).toBe(SECRET)
      expect(outcome.stderr.match(/Read-only file system/g)?.length).toBeGreaterThanOrEqual(3)
      expect(existsSync(join(subject.workspace, 'kept/deep/er/new'))).toBe(false)
      expect(control.exitCode).toBe(0)
      expect(kept()).toBe('changed\n')
    })

    it.each([
      ['a file', 'kept/file', 'cat kept/file'],
      ['a folder', 'kept/deep', 'cat kept/deep/er/file; ls kept/deep; ls -R kept/deep/er'],
      [
        'a file in a folder',
        'kept/deep/er/file',
        'cat kept/deep/er/file; cp kept/deep/er/file /tmp/x; cat /tmp/x',
      ],
    ])('are hidden if %s is denied', async (_what, path, command) => {
      const control = await subject.run(command)

      const outcome = await subject.run(command, { denied: [path] })

      expect(control.stdout).toContain(SECRET)
      expect(outcome.stdout).not.toContain(SECRET)
      expect(outcome.exitCode).not.toBe(0)
    })

    it('are hidden if a path is both denied and read-only, or lies below a read-only path', async () => {
      const outcome = await subject.run('cat kept/file kept/deep/er/file; echo x > kept/new', {
        readOnly: ['kept', 'kept/file'],
        denied: ['kept/file', 'kept/deep'],
      })

      expect(outcome.stdout).toBe('')
      expect(existsSync(join(subject.workspace, 'kept/new'))).toBe(false)
    })

    it.each([
      ['renaming the folder above', 'mv kept moved; cat moved/file moved/deep/er/file'],
      ['renaming the folder between', 'mv kept/deep kept/moved; cat kept/moved/er/file'],
      ['replacing it', 'rm -rf kept/deep; mkdir -p kept/deep/er; cat kept/deep/er/file'],
      ['a hard link', 'ln kept/deep/er/file kept/link; cat kept/link'],
      ['changing its mode', 'chmod -R 777 kept; cat kept/deep/er/file'],
      ['unmounting it', 'umount kept/deep; umount -l kept/file; cat kept/deep/er/file kept/file'],
    ])('stay hidden in this and the next command, against %s', async (_what, attack) => {
      const denied = ['kept/file', 'kept/deep/er']

      const first = await subject.run(attack, { denied })
      const second = await subject.run('grep -r the-secret . ; cat kept/file kept/*/*/*', { denied })

      expect(first.stdout + second.stdout).not.toContain(SECRET)
      expect((await subject.run('cat kept/file')).stdout).toBe(SECRET)
    })

    it('are guarded by the target of a name, not by the name', async () => {
      await symlink('kept', join(subject.workspace, 'alias')).catch(() => undefined)

      const outcome = await subject.run('cat kept/file alias/file', { denied: ['alias/file'] })

      expect(outcome.stdout).not.toContain(SECRET)
    })

    it('are unchanged around guarded paths', async () => {
      const outcome = await subject.run('echo new > kept/deep/new && cat kept/file && mkdir kept/other', {
        denied: ['kept/deep/er'],
        readOnly: ['kept/file'],
      })

      expect(outcome).toMatchObject({ exitCode: 0, stdout: SECRET })
    })

    it('are not created by guarding a missing path', async () => {
      const outcome = await subject.run('ls kept', {
        denied: ['kept/none', 'no/such'],
        readOnly: ['kept/neither'],
      })

      expect(outcome.stdout).toBe('deep\nfile\n')
    })

    it.each(['..', '/etc', '../x', '.', 'kept/../..'])('reject the guarded path %s', async (path) => {
      const outcome = await subject.run('echo ran', { denied: [path] })

      expect(outcome).toMatchObject({ reason: 'spawn_failed', stdout: '' })
    })

    it('include a read-only host folder at its own path', async () => {
      const folder = await temporaryFolder()
      await writeFile(join(folder, 'data'), SECRET)

      const shown = await subject.run(`cat ${folder}/data; echo x > ${folder}/data`, {
        readOnlyRoots: [folder],
      })
      const hidden = await subject.run(`cat ${folder}/data`)

      await rm(folder, { recursive: true })
      expect(shown.stdout).toBe(SECRET)
      expect(shown.stderr).toContain('Read-only file system')
      expect(hidden.stdout).toBe('')
    })

    it.each(['/', '/proc', '/run', '/dev', '/sys', '/workspace', '/no/such/folder', '/etc/passwd'])(
      'do not include the host folder %s',
      async (folder) => {
        const outcome = await subject.run('echo ran', { readOnlyRoots: [folder] })

        expect(outcome).toMatchObject({ reason: 'spawn_failed', stdout: '' })
      },
    )

    it('do not include the workspace a second time, which would bypass the guards', async () => {
      for (const folder of [
        subject.workspace,
        join(subject.workspace, 'kept'),
        join(subject.workspace, '..'),
      ]) {
        const outcome = await subject.run('echo ran', { readOnlyRoots: [folder], denied: ['kept/file'] })

        expect(outcome).toMatchObject({ reason: 'spawn_failed', stdout: '' })
      }
    })
  })
}
