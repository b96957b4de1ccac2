import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { CLONE_LIMITS, type CloneRequest } from '../../contracts/git-source.ts'
import { cloneRepository } from '../../runtime/agent-host/repository/clone.ts'
import { GitServer } from '../fakes/git-server.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { toolboxIn } from './git-toolbox.ts'

const HOST = 'git.agentweaver-test.com'
const TOKEN = 'token-of-the-test'

let authority: ReturnType<typeof createTestAuthority>
beforeAll(() => {
  authority = createTestAuthority()
})

async function aServer() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-clone-'))
  const repositories = join(folder, 'repositories')
  const workspace = join(folder, 'workspace')
  for (const path of [repositories, workspace]) mkdirSync(path)
  writeFileSync(join(folder, 'ca.pem'), authority.certificate)
  const server = new GitServer(repositories, { authority, host: HOST, token: TOKEN })
  await server.open('team/app')
  onTestFinished(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const source = join(repositories, 'source-team-app')
  const git = (...args: string[]) =>
    execFileSync(
      'git',
      ['-c', 'user.name=a', '-c', 'user.email=a@b.example', '-c', 'protocol.file.allow=always', ...args],
      {
        cwd: source,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    ).trim()
  const bare = join(repositories, 'team/app.git')
  const commit = (message: string) => {
    git('commit', '-q', '--allow-empty', '-m', message)
    git('push', '-q', bare, 'HEAD:main')
    return git('rev-parse', 'HEAD')
  }
  const write = (files: Readonly<Record<string, string>>) => {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(source, name)), { recursive: true })
      writeFileSync(join(source, name), content)
    }
    git('add', '-A')
    return commit('files')
  }
  const basic = Buffer.from(`x:${TOKEN}`).toString('base64')
  const config = {
    [`http.https://${HOST}:${server.port}/.extraHeader`]: `Authorization: Basic ${basic}`,
    'http.curloptResolve': `${HOST}:${server.port}:127.0.0.1`,
  }
  const environment = {
    GIT_SSL_CAINFO: join(folder, 'ca.pem'),
    GIT_CONFIG_COUNT: '2',
    ...Object.fromEntries(
      Object.entries(config).flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
  }
  const steps: string[] = []
  const clone = (change: Partial<CloneRequest> = {}, timeoutMs = 60_000) =>
    cloneRepository(
      toolboxIn(workspace, environment),
      { url: `${server.url}/team/app.git`, ...change },
      { signal: AbortSignal.timeout(120_000), onProgress: ({ step }) => steps.push(step), timeoutMs },
    )
  const inWorkspace = (...args: string[]) =>
    execFileSync('git', args, { cwd: workspace, encoding: 'utf8' }).trim()
  return { folder, server, source, workspace, bare, git, commit, write, clone, steps, inWorkspace }
}

it('checks out the branch of HEAD, a branch, a tag or a commit', async () => {
  const { clone, git, bare, commit, inWorkspace, steps } = await aServer()
  const first = git('rev-parse', 'HEAD')
  git('tag', '-a', 'v1', '-m', 'one')
  const second = commit('second')
  git('push', '-q', bare, 'v1', `${second}:refs/heads/feature/x`)
  const third = commit('third')

  expect(await clone()).toMatchObject({
    repository: { commit: third, branch: 'main', files: 1, submodules: 0 },
  })
  expect(inWorkspace('status', '-sb')).toBe('## main...origin/main')
  expect(await clone({ ref: 'feature/x' })).toMatchObject({
    repository: { commit: second, branch: 'feature/x' },
  })
  expect(await clone({ ref: 'v1' })).toMatchObject({ repository: { commit: first } })
  expect(await clone({ ref: second })).toMatchObject({ repository: { commit: second } })
  expect(await clone({ depth: 1 })).toMatchObject({ repository: { commit: third } })
  expect(inWorkspace('rev-list', '--count', 'HEAD')).toBe('1')
  expect(steps).toContain('Receiving objects')
})

it('clones the commit of an earlier clone again, although its branch was moved', async () => {
  const { clone, git, bare, source } = await aServer()
  const first = git('rev-parse', 'HEAD')
  writeFileSync(join(source, 'README'), 'rewritten')
  git('commit', '-q', '--amend', '-am', 'rewritten')
  git('push', '-qf', bare, 'HEAD:main')

  expect(await clone({ ref: 'main', commit: first })).toMatchObject({
    repository: { commit: first, branch: 'main' },
  })
})

it('leaves nothing of a failed clone, and can be repeated', async () => {
  const { clone, workspace, server, write } = await aServer()
  write({ data: 'x'.repeat(100_000) })
  server.intercept = ({ url = '' }, response) => {
    if (!url.includes('git-upload-pack') || url.includes('info/refs')) return false
    response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
    response.write('0008NAK\n', () => response.destroy())
    return true
  }

  const failed = await clone()
  const left = readdirSync(workspace)
  server.intercept = undefined
  const again = await clone()

  expect(failed).toMatchObject({ type: 'failed', reason: 'git' })
  expect(left).toEqual([])
  expect(again).toMatchObject({ type: 'cloned', repository: { files: 2 } })
})

it('reports a missing ref, a server that refuses, and a clone that takes too long', async () => {
  const { clone, server, workspace } = await aServer()

  expect(await clone({ ref: 'missing' })).toMatchObject({
    reason: 'no-ref',
    message: expect.stringContaining('"missing"'),
  })
  expect(await clone({ ref: 'a'.repeat(40) })).toMatchObject({ type: 'failed', reason: 'git' })
  server.intercept = (_request, response) => {
    response.writeHead(403).end()
    return true
  }
  expect(await clone()).toMatchObject({
    reason: 'git',
    message: expect.stringContaining('returned error: 403'),
  })
  server.intercept = () => true
  expect(await clone({}, 1_500)).toMatchObject({ reason: 'timeout' })
  expect(readdirSync(workspace)).toEqual([])
})

it('runs nothing that the repository names: hooks, filters, submodules, configuration', async () => {
  const { clone, git, folder, source, workspace, commit, inWorkspace } = await aServer()
  const marker = join(folder, 'ran')
  const program = `#!/bin/sh\ntouch ${marker}\n`
  for (const hook of ['hooks/post-checkout', '.git-hooks/post-checkout']) {
    mkdirSync(dirname(join(source, hook)), { recursive: true })
    writeFileSync(join(source, hook), program, { mode: 0o755 })
  }
  writeFileSync(join(source, '.gitattributes'), '*.bin filter=evil filter=lfs diff=evil\n')
  writeFileSync(join(source, 'large.bin'), 'version https://git-lfs.github.com/spec/v1\n')
  writeFileSync(
    join(source, '.gitconfig'),
    `[core]\n\tfsmonitor = touch ${marker}\n[filter "evil"]\n\tsmudge = touch ${marker}\n`,
  )
  writeFileSync(join(source, '.lfsconfig'), '[lfs]\n\turl = https://attacker.example\n')
  writeFileSync(
    join(source, '.gitmodules'),
    `[submodule "sub"]\n\tpath = sub\n\turl = ext::touch ${marker}\n\tupdate = none\n`,
  )
  git('add', '-A')
  git('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},sub`)
  commit('hostile')

  const result = await clone()

  expect(result).toMatchObject({ type: 'cloned', repository: { submodules: 1 } })
  expect(existsSync(marker)).toBe(false)
  expect(readFileSync(join(workspace, 'large.bin'), 'utf8')).toContain('version https')
  // The attributes do run the program where the configuration has it.
  rmSync(join(workspace, 'large.bin'))
  inWorkspace('-c', `filter.lfs.smudge=touch ${marker}; cat`, 'checkout-index', '-f', 'large.bin')
  expect(existsSync(marker)).toBe(true)
  expect(readdirSync(join(workspace, 'sub'))).toEqual([])
  expect(existsSync(join(workspace, '.git/hooks'))).toBe(false)
  expect(readFileSync(join(workspace, '.git/config'), 'utf8')).not.toContain(TOKEN)
})

it.each([
  ['/etc/passwd', 'link'],
  ['../outside', 'link'],
  ['a/../../outside', 'link'],
])('refuses a repository with a link to %s', async (target) => {
  const { clone, git, source, commit, workspace } = await aServer()
  symlinkSync(target, join(source, 'link'))
  git('add', '-A')
  commit('link')

  const result = await clone()

  expect(result).toMatchObject({ type: 'failed', reason: 'link', message: expect.stringContaining('"link"') })
  expect(readdirSync(workspace)).toEqual([])
})

it('keeps a link that stays inside', async () => {
  const { clone, git, source, commit } = await aServer()
  mkdirSync(join(source, 'folder'))
  symlinkSync('../README', join(source, 'folder/link'))
  git('add', '-A')
  commit('link')

  expect(await clone()).toMatchObject({ type: 'cloned', repository: { files: 2 } })
})

it('refuses a small repository that describes more files than the limit, before it writes one', async () => {
  const { clone, git, bare, workspace } = await aServer()
  const blob = git('rev-parse', 'HEAD:README')
  let tree = treeOf(
    bare,
    Array.from({ length: 100 }, (_, index) => `100644 blob ${blob}\tf${index}`),
  )
  for (let level = 0; level < 3; level++) {
    const entries = Array.from({ length: 100 }, (_, index) => `040000 tree ${tree}\td${index}`)
    tree = treeOf(bare, entries)
  }
  const author = {
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@b',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@b',
  }
  const env = { ...process.env, ...author }
  const bomb = execFileSync('git', ['commit-tree', tree, '-m', 'bomb'], {
    cwd: bare,
    env,
    encoding: 'utf8',
  }).trim()
  execFileSync('git', ['update-ref', 'refs/heads/bomb', bomb], { cwd: bare })

  const result = await clone({ ref: 'bomb' })

  expect(result).toMatchObject({
    reason: 'too-large',
    message: expect.stringContaining(`${CLONE_LIMITS.maxFiles} files`),
  })
  expect(readdirSync(workspace)).toEqual([])
})

const treeOf = (cwd: string, entries: readonly string[]) =>
  execFileSync('git', ['mktree'], { cwd, input: `${entries.join('\n')}\n`, encoding: 'utf8' }).trim()

it.each(['.git', '.GIT', 'git~1', '.g\u200cit'])(
  'refuses a repository with a path %s/config',
  async (name) => {
    const { clone, bare, git, workspace } = await aServer()
    const blob = git('rev-parse', 'HEAD:README')
    const inner = treeOf(bare, [`100644 blob ${blob}\tconfig`])
    const tree = writeTree(bare, `40000 ${name}\0`, inner)
    const env = {
      ...process.env,
      GIT_AUTHOR_NAME: 'a',
      GIT_AUTHOR_EMAIL: 'a@b',
      GIT_COMMITTER_NAME: 'a',
      GIT_COMMITTER_EMAIL: 'a@b',
    }
    const commit = execFileSync('git', ['commit-tree', tree, '-m', 'x'], {
      cwd: bare,
      env,
      encoding: 'utf8',
    }).trim()
    execFileSync('git', ['update-ref', 'refs/heads/evil', commit], { cwd: bare })

    expect(await clone({ ref: 'evil' })).toMatchObject({
      reason: 'git',
      message: expect.stringMatching(/hasDotgit/),
    })
    expect(readdirSync(workspace)).toEqual([])
  },
)

/** Git's own commands refuse to write such a tree. */
function writeTree(cwd: string, entry: string, id: string): string {
  const content = Buffer.concat([Buffer.from(entry), Buffer.from(id, 'hex')])
  const input = content
  const written = execFileSync('git', ['hash-object', '-t', 'tree', '--literally', '-w', '--stdin'], {
    cwd,
    input,
    encoding: 'utf8',
  })
  const expected = createHash('sha1').update(`tree ${content.length}\0`).update(content).digest('hex')
  expect(written.trim()).toBe(expected)
  return expected
}
