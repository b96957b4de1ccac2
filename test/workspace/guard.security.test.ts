import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { FileOperationInput } from '../../contracts/files.ts'
import { openWorkspace } from '../../runtime/workspace/open-workspace.ts'

/** A user's folder with a repository, opened with or without a guard. */
async function aWorkspace(isGuarded: boolean) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-guard-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, '.git', 'hooks'), { recursive: true })
  writeFileSync(join(folder, '.git', 'config'), 'token')
  mkdirSync(join(folder, 'sub', '.GIT'), { recursive: true })
  mkdirSync(join(folder, '.husky'))
  writeFileSync(join(folder, '.husky', 'pre-commit'), 'mine')
  const guard = isGuarded ? { readOnly: ['.husky', 'tools/lint.sh'] } : undefined
  const workspace = await openWorkspace(folder, { guard })
  onTestFinished(() => workspace.close())
  const perform = async (operation: FileOperationInput) =>
    (await workspace.perform(operation, { payload: Buffer.from('evil') })).result
  return { folder, perform }
}

const ATTACKS: FileOperationInput[] = [
  { op: 'read', path: '.git/config' },
  { op: 'write', path: '.git/hooks/pre-commit' },
  { op: 'write', path: 'sub/.GIT/config' },
  { op: 'mkdir', path: 'new/.git' },
  { op: 'list', path: '.git' },
  { op: 'stat', path: '.git/config' },
  { op: 'delete', path: '.git/hooks', recursive: true },
  { op: 'rename', from: '.git', to: 'moved' },
  { op: 'rename', from: 'sub', to: '.Git' },
  { op: 'write', path: '.husky/pre-commit' },
  { op: 'write', path: '.HUSKY/other', create: 'allowed' },
  { op: 'delete', path: '.husky', recursive: true },
  { op: 'rename', from: '.husky', to: 'x' },
  { op: 'write', path: 'tools/lint.sh' },
]

describe("a workspace that is a user's folder", () => {
  it.each(ATTACKS)('denies $op of $path$from', async (operation) => {
    const { perform } = await aWorkspace(true)
    const unguarded = await aWorkspace(false)

    expect(await perform(operation)).toMatchObject({ ok: false, code: 'denied' })
    expect(await unguarded.perform(operation), 'without the guard').toMatchObject({ ok: true })
  })

  it('allows other operations, and stat on the names', async () => {
    const { folder, perform } = await aWorkspace(true)

    expect(await perform({ op: 'write', path: 'tools/other.sh' })).toMatchObject({ ok: true })
    expect(await perform({ op: 'read', path: '.husky/pre-commit' })).toMatchObject({ ok: true })
    expect(await perform({ op: 'stat', path: '.git' })).toMatchObject({
      ok: true,
      entry: { type: 'directory' },
    })
    expect(await perform({ op: 'write', path: '.gitignore' })).toMatchObject({ ok: true })
    expect(readFileSync(join(folder, '.husky', 'pre-commit'), 'utf8')).toBe('mine')
    expect(existsSync(join(folder, '.gitignore'))).toBe(true)
  })
})
