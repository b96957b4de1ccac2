import { chmod, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openWorkspace } from '../../runtime/workspace/open-workspace.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { callsOn, contentOf } from './tools-rig.ts'

/** Tools on a real folder with the runner's workspace engine. */
async function aWorkspace() {
  const outer = await mkdtemp(join(tmpdir(), 'tools-'))
  const root = join(outer, 'workspace')
  await mkdir(root)
  await writeFile(join(outer, 'secret.txt'), 'of the host')
  const engine = await openWorkspace(root)
  onTestFinished(async () => {
    engine.close()
    await rm(outer, { recursive: true })
  })
  const toolbox = new MemoryToolbox()
  toolbox.file = (operation, io) => engine.perform(operation, io)
  return { outer, root, run: callsOn(toolbox) }
}

describe('the tools on a real workspace', () => {
  it('create, search, read, edit and patch files', async () => {
    const { root, run } = await aWorkspace()

    await run('create', { path: 'src/sum.ts', file_text: 'export const sum = (a, b) => a - b\n' })
    const found = await run('grep_search', { pattern: 'a - b' })
    const listed = await run('file_search', { pattern: '**/*.ts' })
    const read = await run('read_file', { path: 'src/sum.ts' })
    await run('str_replace_editor', { path: 'src/sum.ts', old_str: 'a - b', new_str: 'a + b' })
    const patched = await run('apply_patch', {
      patch: [
        'diff --git a/src/sum.ts b/src/add.ts',
        'similarity index 80%',
        'rename from src/sum.ts',
        'rename to src/add.ts',
        '--- a/src/sum.ts',
        '+++ b/src/add.ts',
        '@@ -1 +1,2 @@',
        '+// adds',
        ' export const sum = (a, b) => a + b',
        '',
      ].join('\n'),
    })

    expect(contentOf(found)).toBe('src/sum.ts:1: export const sum = (a, b) => a - b')
    expect(contentOf(listed)).toBe('src/sum.ts')
    expect(contentOf(read)).toBe('1\texport const sum = (a, b) => a - b')
    expect(contentOf(patched)).toBe('Moved src/sum.ts to src/add.ts')
    expect(await readFile(join(root, 'src/add.ts'), 'utf8')).toBe(
      '// adds\nexport const sum = (a, b) => a + b\n',
    )
    await expect(stat(join(root, 'src/sum.ts'))).rejects.toThrow('ENOENT')
  })

  it('keep the mode of changed files and set the mode that a patch names', async () => {
    const { root, run } = await aWorkspace()
    await writeFile(join(root, 'run.sh'), 'echo one\n')
    await chmod(join(root, 'run.sh'), 0o755)
    await writeFile(join(root, 'plain.sh'), 'echo\n')

    await run('edit', { path: 'run.sh', old_str: 'one', new_str: 'two' })
    const patched = await run('apply_patch', {
      patch: 'diff --git a/plain.sh b/plain.sh\nold mode 100644\nnew mode 100755\n',
    })

    expect((await stat(join(root, 'run.sh'))).mode & 0o777).toBe(0o755)
    expect(patched).toMatchObject({ ok: true })
    expect((await stat(join(root, 'plain.sh'))).mode & 0o777).toBe(0o755)
  })

  it('reach nothing outside the workspace by path, link or patch, and change nothing if one path is denied', async () => {
    const { outer, root, run } = await aWorkspace()
    await symlink('../secret.txt', join(root, 'link'))
    await symlink('..', join(root, 'up'))
    await writeFile(join(root, 'a.txt'), 'one\n')
    const outside = ['../secret.txt', join(outer, 'secret.txt'), 'link', 'up/secret.txt']

    for (const path of outside) {
      expect(await run('read_file', { path })).toMatchObject({ ok: false })
      expect(await run('edit', { path, old_str: 'host', new_str: 'x' })).toMatchObject({ ok: false })
      expect(await run('create', { path, file_text: 'x' })).toMatchObject({ ok: false })
      const patch = `*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** Delete File: ${path}\n*** End Patch\n`
      expect(await run('apply_patch', { patch })).toMatchObject({ ok: false })
    }

    expect(await readFile(join(outer, 'secret.txt'), 'utf8')).toBe('of the host')
    expect(await readFile(join(root, 'a.txt'), 'utf8')).toBe('one\n')
    expect(contentOf(await run('read_file', { path: 'a.txt' }))).toBe('1\tone')
  })
})
