import {
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isGitDirectory, isGitName } from '../../runtime/workspace/git/git-names.ts'
import { GitWatch } from '../../runtime/workspace/git/git-watch.ts'

function aFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-watch-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const root = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  return { folder, root, make: (path: string) => mkdirSync(join(folder, path), { recursive: true }) }
}

it.each(['.git', '.GIT', '.Git', '.git.', '.git ', '.g\u200cit', 'git~1', 'GIT~1', '.git:x', '.git\\x'])(
  'recognises %j as a name that some file system treats as .git',
  (name) => expect(isGitName(name)).toBe(true),
)

it.each(['git', '.gitignore', '.github', '.git2', 'x.git', '.gitmodules', 'git~2'])(
  'recognises %j as a different name',
  (name) => expect(isGitName(name)).toBe(false),
)

it.each([
  [['HEAD', 'objects', 'refs'], true],
  [['head', 'Objects', 'REFS', 'x'], true],
  [['HEAD', 'commondir'], true],
  [['HEAD', 'objects'], false],
  [['objects', 'refs'], false],
])('recognises whether a folder with %j is a git directory', (names, expected) => {
  expect(isGitDirectory(names)).toBe(expected)
})

describe('the git watch', () => {
  it.each([
    ['a repository', (make: (path: string) => void) => make('a/b/.git/objects'), 'a/b/.git'],
    ['another spelling', (make: (path: string) => void) => make('a/.GIT'), 'a/.GIT'],
    ['a spelling of the root', (make: (path: string) => void) => make('.Git'), '.Git'],
  ])('renames %s', async (_, plant, path) => {
    const { folder, root, make } = aFolder()
    make('a/b')
    const watch = new GitWatch(root)
    expect(await watch.hold()).toEqual({ count: 0, names: [], isComplete: true })

    plant(make)

    expect(await watch.hold()).toEqual({ count: 1, names: [path], isComplete: true })
    expect(existsSync(join(folder, path))).toBe(false)
    expect(existsSync(join(folder, `${path}.agentweaver-held`))).toBe(true)
    expect(await watch.hold()).toMatchObject({ count: 0 })
  })

  it('renames files and links of that name, and repeated ones in one place', async () => {
    const { folder, root, make } = aFolder()
    make('a')
    make('b')
    const watch = new GitWatch(root)
    writeFileSync(join(folder, 'a', '.git'), 'gitdir: ../x')
    symlinkSync('/etc', join(folder, 'b', '.git'))
    expect(await watch.hold()).toMatchObject({ count: 2 })

    make('a/.git')

    expect(await watch.hold()).toMatchObject({ names: ['a/.git'] })
    expect(readdirSync(join(folder, 'a')).sort()).toEqual([
      '.git.agentweaver-held',
      '.git.agentweaver-held-2',
    ])
  })

  it('renames HEAD of a bare repository, also of one with objects elsewhere', async () => {
    const { folder, root, make } = aFolder()
    const watch = new GitWatch(root)
    make('bare/objects')
    make('bare/refs')
    writeFileSync(join(folder, 'bare', 'HEAD'), 'ref: refs/heads/main')
    make('linked')
    writeFileSync(join(folder, 'linked', 'HEAD'), 'ref: refs/heads/main')
    writeFileSync(join(folder, 'linked', 'commondir'), '../x')

    const { names } = await watch.hold()

    expect([...names].sort()).toEqual(['bare/HEAD', 'linked/HEAD'])
    expect(readdirSync(join(folder, 'bare')).sort()).toEqual(['HEAD.agentweaver-held', 'objects', 'refs'])
  })

  it('leaves no git directory inside a renamed one', async () => {
    const { folder, root, make } = aFolder()
    const bare = (path: string) => {
      make(`${path}/objects`)
      make(`${path}/refs`)
      writeFileSync(join(folder, path, 'HEAD'), 'ref: refs/heads/main')
    }
    bare('a/.git')
    bare('a/.git/modules/lib')
    make('a/.git/x/.git')

    expect(await new GitWatch(root).hold()).toEqual({ count: 1, names: ['a/.git'], isComplete: true })
    expect(existsSync(join(folder, 'a/.git.agentweaver-held/HEAD'))).toBe(false)
    expect(existsSync(join(folder, 'a/.git.agentweaver-held/modules/lib/HEAD'))).toBe(false)
    expect(existsSync(join(folder, 'a/.git.agentweaver-held/x/.git'))).toBe(false)
  })

  it('keeps entries that existed before, but renames their replacements', async () => {
    const { folder, root, make } = aFolder()
    make('mine/.git')
    make('.git')
    const { found } = await new GitWatch(root).find()
    const watch = new GitWatch(root, { base: found })
    expect(await watch.hold()).toMatchObject({ count: 0 })

    renameSync(join(folder, 'mine', '.git'), join(folder, 'mine', 'moved'))
    make('mine/.git')

    expect(await watch.hold()).toMatchObject({ names: ['mine/.git'] })
    expect(existsSync(join(folder, '.git'))).toBe(true)
  })

  it('finds git directories in folders without read permission, and below names that are not UTF-8', async () => {
    const { folder, root, make } = aFolder()
    const watch = new GitWatch(root)
    make('closed/.git')
    chmodSync(join(folder, 'closed'), 0o311)
    mkdirSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff, 0xfe])]))
    mkdirSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff, 0xfe]), Buffer.from('/.git')]))

    expect(await watch.hold()).toMatchObject({ count: 2, isComplete: true })
  })

  it('follows no link to another folder', async () => {
    const { folder, root } = aFolder()
    const other = aFolder()
    other.make('sub/.git')
    symlinkSync(other.folder, join(folder, 'link'))

    expect(await new GitWatch(root).hold()).toMatchObject({ count: 0 })
    expect(existsSync(join(other.folder, 'sub', '.git'))).toBe(true)
  })

  it('finds new git directories in folders that it has searched before', async () => {
    const { folder, root, make } = aFolder()
    for (let index = 0; index < 50; index++) make(`d${index}/e`)
    const watch = new GitWatch(root)
    for (let round = 0; round < 20; round++) {
      make(`d${round}/e/.git`)
      expect(await watch.hold(), `round ${round}`).toMatchObject({ names: [`d${round}/e/.git`] })
    }
    expect(existsSync(join(folder, 'd3', 'e', '.git'))).toBe(false)
  })

  it('finds new git directories behind more folders than it caches', async () => {
    const { root, make } = aFolder()
    for (let index = 0; index < 40; index++) make(`d${index}`)
    const watch = new GitWatch(root, { maxRemembered: 10 })
    for (const path of ['a/.git', 'd20/.git', 'z/.git']) {
      make(path)
      expect(await watch.hold()).toEqual({ count: 1, names: [path], isComplete: true })
    }
    expect(watch.folderCount).toBeGreaterThan(40)
  })

  it('reports that a tree is too large to search completely', async () => {
    const { root, make } = aFolder()
    for (let index = 0; index < 20; index++) make(`d${index}`)

    expect(await new GitWatch(root, { maxFolders: 10 }).hold()).toMatchObject({ isComplete: false })
  })
})
