import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OwnService, startOwnService } from './own-service.ts'
import { aFolder, runCli, untilQuiet } from './run-cli.ts'

const SETTINGS = '# ours\nshell_enabled: true # commands run\n\n# for the database\nredact_pii: true\n'
const STRICT = 'require_approval_for_all_shell: true\nshell_enabled: false\n'

let folder: string
let service: OwnService
let env: Record<string, string>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-propose-test-'))
  service = await startOwnService(folder)
  env = {
    AGENTWEAVER_STATE_DIR: join(folder, 'state'),
    GIT_AUTHOR_NAME: 'Ada',
    GIT_AUTHOR_EMAIL: 'ada@example.com',
  }
})

afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true })
})

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=me', '-c', 'user.email=me@example.com', ...args], {
    cwd,
    encoding: 'utf8',
  })

/** A repository with a settings file, a staged and an unstaged change, and hooks that leave a trace. */
async function aRepository(): Promise<string> {
  const path = await aFolder('aw-propose-')
  git(path, 'init', '-q', '-b', 'main')
  await mkdir(join(path, '.agentweaver'))
  await mkdir(join(path, 'src'))
  await writeFile(join(path, '.agentweaver/settings.yml'), SETTINGS)
  await writeFile(join(path, 'src/a.txt'), 'one\n')
  git(path, 'add', '.')
  git(path, 'commit', '-qm', 'first')
  for (const hook of ['pre-commit', 'commit-msg', 'post-commit', 'reference-transaction'])
    await writeFile(join(path, '.git/hooks', hook), `#!/bin/sh\ntouch ${path}/hook-ran\n`, { mode: 0o755 })
  await writeFile(join(path, 'staged.txt'), 'staged\n')
  git(path, 'add', 'staged.txt')
  await writeFile(join(path, 'src/a.txt'), 'two\n')
  await rm(join(path, 'hook-ran'), { force: true })
  return path
}

const propose = (cwd: string, args: readonly string[], input = STRICT) =>
  runCli(['policy', 'propose', '-', ...args], { cwd, env, input })

describe('policy propose', () => {
  test('prints a diff that git applies, from any folder of the repository, and keeps comments', async () => {
    const path = await aRepository()

    const { status, stdout, stderr } = await propose(join(path, 'src'), [])
    const before = await readFile(join(path, '.agentweaver/settings.yml'), 'utf8')
    execFileSync('git', ['apply'], { cwd: path, input: stdout })

    expect({ status, before }).toEqual({ status: 0, before: SETTINGS })
    expect(stderr).toContain('Nothing was changed. Apply the diff with "git')
    expect(await readFile(join(path, '.agentweaver/settings.yml'), 'utf8')).toBe(
      '# ours\nshell_enabled: false # commands run\n\n# for the database\nredact_pii: true\nrequire_approval_for_all_shell: true\n',
    )
    expect((await propose(path, [])).stderr).toContain('The file has these settings already.')
  })

  test('proposes a new file in a folder without one', async () => {
    const path = await aFolder('aw-propose-')
    git(path, 'init', '-q')

    const { stdout } = await propose(path, [])
    execFileSync('git', ['apply'], { cwd: path, input: stdout })

    expect(await readFile(join(path, '.agentweaver/settings.yml'), 'utf8')).toBe(
      'shell_enabled: false\nrequire_approval_for_all_shell: true\n',
    )
  })

  test('prints the command that applies the diff, at the top of a repository and from other folders', async () => {
    const path = await aRepository()
    const commandIn = async (cwd: string) =>
      /Apply the diff with "(.*)"/.exec((await propose(cwd, [path])).stderr)?.[1] ?? ''
    const { stdout } = await propose(path, [])

    const other = await commandIn('/')
    expect(other).toBe(`git -C ${path} apply`)
    expect(await commandIn(path)).toBe('git apply')
    expect(await commandIn(join(path, 'src'))).toBe(other)

    execFileSync('sh', ['-ec', other], { cwd: '/', input: stdout })
    expect(git(path, 'diff', '--name-only')).toContain('.agentweaver/settings.yml')
  })

  test('commits on a new branch, and changes no file, no index, no other ref and runs no hook', async () => {
    const path = await aRepository()
    const state = () => [git(path, 'status', '--porcelain', '-b'), git(path, 'rev-parse', 'HEAD', 'main')]
    const before = state()
    const index = await readFile(join(path, '.git/index'))

    const { status, stdout, stderr } = await propose(path, ['--branch', 'agent-settings'])

    expect({ status, stdout }).toEqual({ status: 0, stdout: 'agent-settings\n' })
    expect(stderr).toContain('Review:  git show agent-settings')
    expect((await readFile(join(path, '.git/index'))).equals(index)).toBe(true)
    expect(state()).toEqual(before)
    expect(git(path, 'log', '-1', '--format=%an <%ae> %P', 'agent-settings').trim()).toBe(
      `Ada <ada@example.com> ${git(path, 'rev-parse', 'main').trim()}`,
    )
    expect(git(path, 'diff', '--name-status', 'main', 'agent-settings')).toBe(
      'M\t.agentweaver/settings.yml\n',
    )
    expect(git(path, 'show', 'agent-settings:.agentweaver/settings.yml')).toContain(
      'shell_enabled: false # commands run',
    )
    expect(git(path, 'log', '-1', '--format=%B', 'agent-settings')).toMatch(
      /^Propose settings for agents\n\nChanges \.agentweaver\/settings\.yml\. .*trust.*--accept-settings.*clone.*ignore/s,
    )
    git(path, 'fsck', '--strict')
    await expect(readFile(join(path, 'hook-ran'))).rejects.toThrow('ENOENT')
    // The hooks work: an ordinary commit runs them.
    git(path, 'commit', '-qm', 'second')
    await readFile(join(path, 'hook-ran'))
  })

  test('changes nothing if the branch exists or has an invalid name', async () => {
    const path = await aRepository()
    git(path, 'branch', 'taken')
    const refs = () => git(path, 'for-each-ref')
    const before = refs()

    const taken = await propose(path, ['--branch', 'taken'])
    const odd = await propose(path, ['--branch', 'a..b'])
    const option = await propose(path, ['--branch=--detach'])

    expect([taken.status, odd.status, option.status]).toEqual([6, 2, 2])
    expect(taken.stderr).toContain('The branch taken exists. Nothing was changed.')
    expect(odd.stderr).toContain('This is not a name for a branch: a..b')
    expect(refs()).toBe(before)
  })

  test('refuses names that git reads as something else than the branch', async () => {
    const path = await aRepository()
    const before = git(path, 'for-each-ref')

    for (const name of [
      'HEAD',
      'head',
      '@',
      'FETCH_HEAD',
      'refs/heads/x',
      git(path, 'rev-parse', 'HEAD').trim(),
    ])
      expect(await propose(path, ['--branch', name]), name).toMatchObject({
        status: 2,
        stderr: expect.stringContaining(`Git has another meaning for this name: ${name}`),
      })

    expect(git(path, 'for-each-ref')).toBe(before)
  })

  test('quotes the name of the branch in the commands that it prints', async () => {
    const path = await aRepository()
    const name = "it's;touch$IFS-ran;#"

    const { stdout, stderr } = await propose(path, ['--branch', name])

    expect(stdout).toBe(`${name}\n`)
    const sh = (label: string) =>
      execFileSync('sh', ['-ec', new RegExp(`${label}: +(.*)`).exec(stderr)?.[1] ?? 'exit 1'], {
        cwd: path,
        encoding: 'utf8',
      })
    expect(sh('Review')).toContain('Propose settings for agents')
    sh('Discard')
    expect(git(path, 'for-each-ref', '--format=%(refname)')).toBe('refs/heads/main\n')
    expect(await readdir(path)).not.toContain('-ran')
  })

  test('prints commands that act on the named repository, from any folder', async () => {
    const path = await aRepository()
    const other = await aRepository()
    const printed = async (cwd: string) => {
      const { stderr } = await propose(cwd, [path, '--branch', 'fix'])
      const [, review = ''] = /Review: +(.*)/.exec(stderr) ?? []
      const [, discard = ''] = /Discard: +(.*)/.exec(stderr) ?? []
      expect(execFileSync('sh', ['-ec', review], { cwd, encoding: 'utf8' })).toContain('Propose settings')
      execFileSync('sh', ['-ec', discard], { cwd })
      return review
    }

    expect(await printed(join(path, 'src'))).toBe('git show fix')
    expect(await printed(other)).toBe(`git -C ${path} show fix`)
    expect(await printed('/')).toBe(`git -C ${path} show fix`)
  })

  test('refuses what the policy does not allow, and a file with a mistake', async () => {
    const path = await aRepository()

    const wide = await propose(path, [], 'network_enabled: true\n')
    await writeFile(join(path, '.agentweaver/settings.yml'), 'redact_pii: true\nnonsense: 1\n')
    const broken = await propose(path, [])
    const input = await propose(path, [], 'shell_enabled: maybe\n')

    expect(wide.stderr).toMatch(/network_enabled: the network is off/)
    expect(broken.stderr).toMatch(/The present settings file, line 2: nonsense: is not a known key/)
    expect(input.stderr).toMatch(/standard input, line 1: shell_enabled/i)
    expect([wide.status, broken.status, input.status]).toEqual([2, 2, 2])
    expect([wide.stdout, broken.stdout]).toEqual(['', ''])
  })

  test('replaces the other keys, as JSON', async () => {
    const path = await aRepository()

    const { stdout } = await propose(path, ['--replace', '--branch', 'only', '--json'], 'redact_pii: true\n')

    const answer = JSON.parse(stdout)
    expect(answer).toMatchObject({ base: { kind: 'request' }, branch: 'only' })
    expect(answer.commit).toBe(git(path, 'rev-parse', 'only').trim())
    expect(answer.text).toBe('# ours\n\n# for the database\nredact_pii: true\n')
  })
})

test('policy set names the runs that it changes', async () => {
  const set = async (...scope: string[]) => {
    const run = () => runCli(['policy', 'set', '-', ...scope], { env, input: 'require_outcome: true\n' })
    return [await run(), await run()].map(({ stdout }) => stdout.split('\n')[0])
  }

  expect(await set('--owner', 'ada')).toEqual([
    'Changed for new runs of ada:',
    'Nothing changed for new runs of ada.',
  ])
  expect(await set('--repository', 'https://git.example.com/a/b')).toEqual([
    'Changed for new runs on https://git.example.com/a/b:',
    'Nothing changed for new runs on https://git.example.com/a/b.',
  ])
  expect(await set()).toEqual(['Changed for all new runs:', 'Nothing changed for all new runs.'])
})
