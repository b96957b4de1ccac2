import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { streamChanges } from '../../runtime/agent-host/repository/changes.ts'
import { readParts } from '../../runtime/api/runs/results/read-parts.ts'
import { statsOf } from '../../runtime/git/results.ts'
import { toolboxIn } from './git-toolbox.ts'

const REF = `refs/agentweaver/run_${'1'.repeat(32)}`
const MAX = {
  raw: 1e6,
  numstat: 1e6,
  patch: 2e7,
  heads: 1e6,
  commit: 100,
  count: 100,
  problem: 1e6,
  'no-branch': 1e6,
  bundle: 1e8,
}

/** A workspace with a clone of two files, as a run finds it. */
function aWorkspace() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-changes-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], {
      cwd: folder,
      encoding: 'utf8',
    }).trim()
  const write = (files: Readonly<Record<string, string>>) => {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), content)
    }
  }
  git('init', '-q', '-b', 'main', '--template=')
  write({ 'one.txt': 'one\n', '.gitignore': 'ignored/\n' })
  git('add', '-A')
  git('commit', '-q', '-m', 'first')
  const base = git('rev-parse', 'HEAD')
  const parts = (from = base) => readParts(streamChanges(toolboxIn(folder), { base: from, ref: REF }), MAX)
  const changed = async () => {
    const found = await parts()
    const text = (name: string) => found.get(name)?.toString('latin1') ?? ''
    return statsOf(text('raw'), text('numstat')).map(({ path, status }) => `${status} ${path}`)
  }
  return { folder, git, write, base, parts, changed }
}

it('lists committed and uncommitted changes since the base commit, without ignored files', async () => {
  const { git, write, changed, parts } = aWorkspace()
  write({ 'two.txt': 'two\n' })
  git('add', '-A')
  git('commit', '-q', '-m', 'second')
  write({ 'one.txt': 'one more\n', 'ignored/file': 'x' })

  expect(await changed()).toEqual(['modified one.txt', 'added two.txt'])
  expect((await parts()).get('count')?.toString()).toBe('2\n')
})

it('reports nothing and no bundle if nothing changed', async () => {
  const { parts, base } = aWorkspace()

  const found = await parts()

  expect([found.get('raw')?.length, found.has('bundle'), found.get('commit')?.toString()]).toEqual([
    0,
    false,
    `${base}\n`,
  ])
})

it.each([
  ['the index', (git: Git) => git('update-index', '--assume-unchanged', 'one.txt')],
  [
    'a replaced commit',
    (git: Git) =>
      git('replace', 'HEAD', git('commit-tree', '4b825dc642cb6eb9a060e54bf8d69288fbee4904', '-m', 'x')),
  ],
  ['a rule to ignore in the configuration', (git: Git) => git('config', 'core.excludesFile', '/dev/stdin')],
  ['a converter in the configuration', (git: Git) => git('config', 'diff.none.textconv', 'true')],
  ['another working tree in the configuration', (git: Git) => git('config', 'core.worktree', '/nowhere')],
])('finds a change that %s hides', async (_how, hide) => {
  const { git, write, changed, parts } = aWorkspace()
  hide(git)
  write({ 'one.txt': 'hidden\n' })

  expect(await changed()).toContain('modified one.txt')
  expect((await parts()).get('patch')?.toString()).toContain('+hidden')
})
type Git = (...args: string[]) => string

it('is needed, because git itself does not show such a change (control)', () => {
  const { git, write } = aWorkspace()
  git('update-index', '--assume-unchanged', 'one.txt')
  write({ 'one.txt': 'hidden\n' })

  expect(git('status', '--porcelain')).toBe('')
})

it('shows the content of a file that the attributes call binary', async () => {
  const { write, parts } = aWorkspace()
  write({ '.gitattributes': '* -diff -text binary\n', 'one.txt': 'hidden\n' })

  expect((await parts()).get('patch')?.toString()).toContain('+hidden')
})

it('leaves out repositories in the workspace, also one without a commit', async () => {
  const { git, write, changed } = aWorkspace()
  write({ 'inner/file': 'x', 'two.txt': 'two\n' })
  git('init', '-q', 'inner')

  expect(await changed()).toEqual(['added two.txt'])
})

it('says why there are no changes if the run removed its git directory, or the commit', async () => {
  const { folder, parts } = aWorkspace()

  await expect(parts('2'.repeat(40))).rejects.toThrow('cannot compare the files with the base commit')
  renameSync(join(folder, '.git'), join(folder, 'moved'))
  await expect(parts()).rejects.toThrow('the run removed or replaced .git')
})

it('makes one commit on the base if HEAD names no commit', async () => {
  const { folder, write, changed, parts } = aWorkspace()
  write({ 'one.txt': 'changed\n' })
  writeFileSync(join(folder, '.git/HEAD'), 'ref: refs/heads/none\n')

  expect(await changed()).toEqual(['modified one.txt'])
  expect((await parts()).get('count')?.toString()).toBe('1\n')
})
