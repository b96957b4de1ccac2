import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openWorkspace } from '../../runtime/workspace/open-workspace.ts'
import { aWorkspace } from './workspace-fixture.ts'

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'roots-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'real'))
  symlinkSync('real', join(folder, 'link'))
  writeFileSync(join(folder, 'file'), '')
  return folder
}

describe('the root of a workspace', () => {
  it.each([
    ['link', 'symlink'],
    ['link/', 'symlink'],
    ['file', 'not_a_directory'],
    ['none', 'not_found'],
  ])('is rejected: %s', async (name, code) => {
    await expect(openWorkspace(join(aFolder(), name))).rejects.toMatchObject({ code })
  })

  it.each(['', 'relative', '/', '///', '/tmp\0'])('rejects %j', async (path) => {
    await expect(openWorkspace(path)).rejects.toMatchObject({ code: 'denied' })
  })

  it("does not contain a sibling folder whose name starts with the root's name", async () => {
    const folder = aFolder()
    mkdirSync(join(folder, 'real-evil'))
    const workspace = await openWorkspace(join(folder, 'real'), { engine: 'walk' })
    onTestFinished(() => workspace.close())

    const { result } = await workspace.perform({ op: 'stat', path: '../real-evil' })

    expect(result).toMatchObject({ ok: false, code: 'path_outside' })
  })

  it('returns an error for a malformed request', async () => {
    const { workspace } = await aWorkspace()

    const unknown = await workspace.perform({ op: 'chown', path: 'x' } as never)
    const long = await workspace.perform({ op: 'read', path: 'x'.repeat(5000) })

    expect(unknown.result).toMatchObject({ ok: false, code: 'denied' })
    expect(long.result).toMatchObject({ ok: false, code: 'path_too_long' })
  })

  it('stops a long deletion when its signal is aborted', async () => {
    const { workspace, root } = await aWorkspace()
    for (let index = 0; index < 500; index++) mkdirSync(join(root, `t/${index}`), { recursive: true })
    const abort = new AbortController()

    const removal = workspace.perform({ op: 'delete', path: 't', recursive: true }, { signal: abort.signal })
    abort.abort(new Error('no longer wanted'))

    expect((await removal).result).toMatchObject({ ok: false, code: 'io_error' })
    expect((await workspace.perform({ op: 'stat', path: 't' })).result.ok).toBe(true)
  })
})
