import {
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { MadeBranch } from '../../runtime/git/branch.ts'
import { copyTree } from '../../runtime/git/copy-tree.ts'
import { afterRun, RUN_ID, runOn } from './folder-rig.ts'
import { aPlace, aRepository, type Place } from './repository.ts'

const REF = `refs/agentweaver/${RUN_ID}`

/** Fetches a branch into the user's repository with plain git. */
function fetched(place: Place, branch: MadeBranch | undefined): void {
  if (!branch) throw new Error('there is no branch')
  const file = join(place.folder, 'run.bundle')
  writeFileSync(file, branch.bundle)
  place.shell(`git fetch -q '${file}' ${REF}:${REF}`)
}

const IDENTITY = 'git config user.name Agent; git config user.email agent@example.com'

describe('an isolated run', () => {
  it('leaves the folder unchanged, and returns its commits and uncommitted changes as a branch', async () => {
    const place = aRepository()

    const { record, conclusion } = await afterRun(place, {
      mode: 'isolated',
      commands: [`${IDENTITY}; echo two >>a.txt; git commit -qam second; echo new >new.txt`],
    })

    expect(place.shell('git status --short; cat a.txt')).toBe('one\n')
    expect(record.root).not.toBe(place.project)
    fetched(place, conclusion.branch)
    expect(place.shell(`git log --format='%an: %s' main..${REF}`)).toBe(
      `Agentweaver: Uncommitted changes of ${RUN_ID}\nAgent: second\n`,
    )
    expect(place.shell(`git show ${REF}:a.txt ${REF}:new.txt`)).toBe('one\ntwo\nnew\n')
    expect(conclusion).toMatchObject({ isComplete: true, problems: [] })
  })

  it('sees uncommitted and untracked files, and does not return those that it did not change', async () => {
    const place = aRepository()
    place.shell(
      'echo b >b.txt; git add b.txt; git commit -qm b; echo mine >>a.txt; echo mine >>b.txt; echo u >untracked; echo s >staged; git add staged',
    )

    const { outcomes, conclusion, patch } = await afterRun(place, {
      mode: 'isolated',
      commands: ['git status --short', 'echo run >>b.txt'],
    })

    expect(outcomes[0]?.stdout).toBe(' M a.txt\n M b.txt\nA  staged\n?? untracked\n')
    expect(patch.split('\n').filter((line) => /^[+-]\w/.test(line))).toEqual(['+run'])
    expect(conclusion.hadUncommittedChanges).toBe(true)
    fetched(place, conclusion.branch)
    expect(place.shell(`git diff --name-only main ${REF}; git show ${REF}:b.txt`)).toBe(
      'b.txt\nb\nmine\nrun\n',
    )
  })

  it('sees ignored folders, and does not return them', async () => {
    const place = aRepository()
    place.shell(
      'echo node_modules/ >.gitignore; git add .; git commit -qm ignore; mkdir node_modules; echo dep >node_modules/dep',
    )

    const { outcomes, conclusion } = await afterRun(place, {
      mode: 'isolated',
      commands: [
        'cat node_modules/dep; echo evil >node_modules/dep; echo more >node_modules/more; echo x >x',
      ],
    })

    expect(outcomes[0]?.stdout).toBe('dep\n')
    expect(conclusion.diff?.files.map(({ path }) => path)).toEqual(['x'])
    expect(conclusion.ignored).toBeUndefined()
    expect(readFileSync(join(place.project, 'node_modules', 'dep'), 'utf8')).toBe('dep\n')
  })

  it('copies links as links, and follows none', async () => {
    const place = aRepository()
    writeFileSync(join(place.folder, 'secret'), 'hunter2')
    place.shell('ln -s ../secret link; ln -s / root; mkfifo fifo')

    const { outcomes } = await afterRun(place, {
      mode: 'isolated',
      commands: ['readlink link root; cat link; ls'],
    })

    expect(outcomes[0]?.stdout).toBe('../secret\n/\na.txt\nlink\nroot\n')
  })

  it('returns nothing if it changed nothing', async () => {
    const { conclusion, patch } = await afterRun(aRepository(), {
      mode: 'isolated',
      commands: ['cat a.txt; git status'],
    })

    expect(conclusion).toMatchObject({ isComplete: true, diff: { files: [] }, problems: [] })
    expect(conclusion.branch).toBeUndefined()
    expect(patch).toBe('')
  })

  it('works on a repository without a commit', async () => {
    const place = aPlace()
    place.shell('git init -q -b main; echo mine >mine')

    const { conclusion } = await afterRun(place, { mode: 'isolated', commands: ['echo x >x'] })

    fetched(place, conclusion.branch)
    expect(place.shell(`git ls-tree --name-only ${REF}`)).toBe('x\n')
  })

  it.each([
    [
      'a linked worktree',
      'cd ..; rm -r project; git init -q -b main real; cd real; echo one >a.txt; git add .; git commit -qm first; git worktree add -q ../project -b side',
    ],
    [
      'a repository with SHA-256',
      'rm -rf .git; git init -q -b main --object-format=sha256; git add .; git commit -qm first',
    ],
    [
      'a shallow clone',
      'echo 2 >>a.txt; git commit -qam 2; cd ..; mv project source; git clone -q --depth 1 "file://$PWD/source" project',
    ],
    ['a split index', 'echo s >s; git add s; git update-index --split-index; echo t >t; git add t'],
    [
      'a sparse checkout',
      'mkdir x y; echo x >x/x; echo y >y/y; git add .; git commit -qm xy; git sparse-checkout set x',
    ],
    ['packed refs and objects', 'git tag t; git gc -q; git pack-refs --all'],
    [
      'an unfinished merge',
      'git checkout -q -b o; echo o >a.txt; git commit -qam o; git checkout -q main; echo m >a.txt; git commit -qam m; git merge -q o || true',
    ],
  ])('works on %s', async (_, script) => {
    const place = aRepository()
    place.shell(script)
    const before = place.shell('git status --short')

    const { outcomes, conclusion } = await afterRun(place, {
      mode: 'isolated',
      commands: [
        'git status --short',
        `${IDENTITY}; echo new >new.txt; git add new.txt; git commit -qm 'by the run' || git commit -qam 'by the run'; echo more >>new.txt`,
      ],
    })

    expect(outcomes[0]?.stdout).toBe(before)
    fetched(place, conclusion.branch)
    expect(place.shell(`git show ${REF}:new.txt`)).toBe('new\nmore\n')
    expect(place.shell(`git log --format=%s -1 ${REF}~`)).toBe('by the run\n')
    expect(place.shell('git fsck --no-dangling 2>&1 || true')).not.toMatch(/error|missing/)
  })

  it('stores line ends as the repository asks, and leaves an unchanged file with a filter alone', async () => {
    const place = aRepository()
    place.shell(
      "printf '*.txt eol=crlf\\nbig filter=x\\n' >.gitattributes; git config filter.x.clean 'echo pointer'; echo content >big; git add .; git commit -qm attributes; rm a.txt; git checkout -q a.txt",
    )
    expect(place.shell('git show HEAD:big')).toBe('pointer\n')

    const { conclusion, patch } = await afterRun(place, {
      mode: 'isolated',
      commands: ["printf 'two\\r\\n' >>a.txt"],
    })

    fetched(place, conclusion.branch)
    expect(place.shell(`git diff --name-only main ${REF}; git show ${REF}:a.txt`)).toBe('a.txt\none\ntwo\n')
    expect(patch).toContain('+two\r\n')
  })

  it('gives nested repositories their own git directories, and reports what the branch lacks', async () => {
    const place = aRepository()
    place.shell(
      'git init -q ../lib; cd ../lib; echo l >l; git add .; git commit -qm lib; cd ../project; git -c protocol.file.allow=always submodule -q add ../lib libs/one; git commit -qm module',
    )

    const { outcomes, conclusion, patch } = await afterRun(place, {
      mode: 'isolated',
      commands: [
        'git status --short; git -C libs/one log --format=%s',
        'echo more >>libs/one/l; echo x >x; git status --short',
      ],
    })

    expect(outcomes.map(({ stdout }) => stdout)).toEqual(['lib\n', ' m libs/one\n?? x\n'])
    expect(patch).toContain('libs/one/l')
    expect(conclusion.problems).toEqual([expect.stringContaining('libs/one, a nested repository')])
    fetched(place, conclusion.branch)
    expect(place.shell(`git diff --name-only main ${REF}`)).toBe('x\n')
  })

  it('rejects a copy that is too large, and names the alternatives', async () => {
    const place = aRepository()
    mkdirSync(join(place.folder, 'copy'))
    const open = (path: string) => openSync(path, constants.O_RDONLY | constants.O_DIRECTORY)
    place.shell('for i in 1 2 3 4 5; do echo $i >$i; done')
    const copied = (limits: { maxEntries: number; maxBytes: number }) =>
      copyTree(open(place.project), open(join(place.folder, 'copy')), { limits })

    await expect(copied({ maxEntries: 3, maxBytes: 1e9 })).rejects.toThrow(/more than 3 files.*--in-place/)
    rmSync(join(place.folder, 'copy'), { recursive: true })
    mkdirSync(join(place.folder, 'copy'))
    await expect(copied({ maxEntries: 30, maxBytes: 5 })).rejects.toThrow(/more than 5 bytes/)
  })
})

describe('an in-place run', () => {
  it('changes the files, and returns its commits as a branch', async () => {
    const place = aRepository()

    const { conclusion } = await afterRun(place, {
      mode: 'in-place',
      commands: [`${IDENTITY}; echo two >>a.txt; git commit -qam second`],
    })

    expect(place.shell('git status --short; git log --format=%s')).toBe(' M a.txt\nfirst\n')
    fetched(place, conclusion.branch)
    expect(place.shell(`git log --format=%s ${REF}`)).toBe('second\nfirst\n')
  })

  it('reports the ignored files that it wrote', async () => {
    const place = aRepository()
    place.shell(
      'printf "node_modules/\\n.envrc\\n" >.gitignore; git add .; git commit -qm i; mkdir node_modules; echo a >node_modules/a; echo b >node_modules/b',
    )

    const { conclusion } = await afterRun(place, {
      mode: 'in-place',
      commands: ['echo evil >node_modules/a; rm node_modules/b; echo evil >.envrc; echo x >x'],
    })

    expect(conclusion.diff?.files.map(({ path }) => path)).toEqual(['x'])
    expect(conclusion.ignored).toEqual(['.envrc', 'node_modules/a', 'node_modules/b'])
    expect(conclusion.written).toEqual(['x', '.envrc', 'node_modules/a'])
  })

  it('removes its placeholders, and no files of the user', async () => {
    const place = aRepository()
    place.shell('git config core.hooksPath a/b/hooks; git config include.path ../shared')
    const run = runOn(place, 'in-place')
    await run.prepare()
    expect(lstatSync(join(place.project, 'a', 'b', 'hooks')).isDirectory()).toBe(true)
    place.shell('echo mine >a/mine')

    await run.conclude()

    expect(existsSync(join(place.project, 'a', 'b'))).toBe(false)
    expect(existsSync(join(place.project, 'shared'))).toBe(false)
    expect(readFileSync(join(place.project, 'a', 'mine'), 'utf8')).toBe('mine\n')
  })
})
