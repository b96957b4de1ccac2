import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { resultLines } from '../../cli/results/result-lines.ts'
import { createPaint } from '../../cli/terminal/paint.ts'
import type { RunDiff } from '../../contracts/results.ts'
import { branchRef } from '../../runtime/git/branch.ts'
import { aPlace, aRepository, type Place } from '../git/repository.ts'
import { aRun, RUN_ID } from './fake-service.ts'
import { runCli, startAtTerminal } from './run-cli.ts'

const REF = branchRef(RUN_ID)

const aDiff = (change: Partial<RunDiff> = {}): RunDiff => ({
  files: [{ path: 'a.txt', status: 'modified', additions: 1, deletions: 0 }],
  fileCount: 1,
  additions: 1,
  deletions: 0,
  patch: { bytes: 1, isCut: false, isRedacted: false },
  handOff: [],
  hadUncommittedChanges: false,
  problems: [],
  ...change,
})

type Answers = { readonly diff: RunDiff; readonly patch?: string; readonly bundle?: Uint8Array }

/** A service with the results of one run. */
async function startResults(path: string, { diff, patch = '', bundle = new Uint8Array() }: Answers) {
  const workspace = { kind: 'path', path, mode: 'isolated' } as const
  const answers: Readonly<Record<string, string | Uint8Array>> = {
    '/healthz': '{}',
    [`/api/runs/${RUN_ID}`]: JSON.stringify(aRun({ state: 'succeeded', workspace })),
    [`/api/runs/${RUN_ID}/diff`]: JSON.stringify(diff),
    [`/api/runs/${RUN_ID}/diff/patch`]: patch,
    [`/api/runs/${RUN_ID}/bundle`]: bundle,
  }
  const server = createServer(({ url }, response) => response.end(answers[url ?? ''] ?? ''))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: 'key' }
}

/** A bundle of one ref, announced as the service does. */
async function aBundle(place: Place, script: string, ref = REF) {
  place.shell(
    `cp -r ../project ../agent; cd ../agent; ${script}; git update-ref ${ref} HEAD; git bundle create -q ../run.bundle ${ref} ^main 2>/dev/null || git bundle create -q ../run.bundle ${ref}`,
  )
  const bundle = await readFile(join(place.folder, 'run.bundle'))
  const commit = place.shell('git rev-parse HEAD', join(place.folder, 'agent')).trim()
  const sha256 = createHash('sha256').update(bundle).digest('hex')
  const branch = { ref: REF, commit, commits: 1, bytes: bundle.length, sha256, otherBranches: [] }
  return { bundle, branch }
}

const DETACHED_COMMIT = 'git checkout -q --detach; echo two >>a.txt; git commit -qam second'

describe('diff', () => {
  const HOSTILE = 'diff --git a/x b/x\n+\u001b]0;title\u0007\u001b[8mhidden\u001b[2J\u202e\rback\n'

  test('writes the patch unchanged to a pipe, and escapes control characters for a terminal', async () => {
    const env = await startResults('/nowhere', { diff: aDiff(), patch: HOSTILE })

    const piped = await runCli(['diff', RUN_ID], { env })
    await using terminal = startAtTerminal(['diff', RUN_ID], { env })

    expect(await terminal.exited).toBe(0)
    expect(piped).toMatchObject({ status: 0, stdout: HOSTILE })
    expect(terminal.screen()).toContain(
      '+<U+001B>]0;title<U+0007><U+001B>[8mhidden<U+001B>[2J<U+202E><U+000D>back',
    )
  })

  test('shows names, numbers and JSON, with hand-off files first', async () => {
    const diff = aDiff({
      files: [
        { path: 'package.json', status: 'added', additions: 2, deletions: 0 },
        { path: 'new', from: 'old', status: 'renamed' },
      ],
      fileCount: 2,
      additions: 2,
      handOff: [{ path: 'package.json', kind: 'packages' }],
      ignored: { count: 1, paths: ['node_modules/x'] },
      patch: { bytes: 1, isCut: true, isRedacted: true },
    })
    const env = await startResults('/nowhere', { diff })

    const names = await runCli(['diff', RUN_ID, '--name-only'], { env })
    const stat = await runCli(['diff', RUN_ID, '--stat'], { env })
    const json = await runCli(['diff', RUN_ID, '--json'], { env })
    const both = await runCli(['diff', RUN_ID, '--stat', '--name-only'], { env })

    expect(names.stdout).toBe('package.json\nnew\nnode_modules/x\n')
    expect(names.stderr).toMatch(
      /execute or obey:\n {2}package.json {2}packages\n.*your rights\.\nSecrets.*\n.*cut.*\n1 file that git ignores/,
    )
    expect(stat.stdout).toMatch(
      /A {2}\+2 +-0 +package.json\nR +old → new\n2 files changed, 2 lines added, 0 removed\n/,
    )
    expect(JSON.parse(json.stdout)).toEqual(diff)
    expect(both.status).toBe(2)
  })
})

describe('fetch', () => {
  test('creates one ref, changes no file, and prints the next steps', async () => {
    const place = aRepository()
    place.shell(
      'echo mine >>a.txt; git config core.fsmonitor "touch $HOME/ran; false"; mkdir -p .git/hooks; printf "#!/bin/sh\\ntouch $HOME/ran\\n" | tee .git/hooks/reference-transaction >.git/hooks/post-index-change; chmod +x .git/hooks/*',
    )
    const { bundle, branch } = await aBundle(
      place,
      `rm -r .git/hooks; git config --unset core.fsmonitor; ${DETACHED_COMMIT}`,
    )
    const env = await startResults(place.project, {
      diff: aDiff({ branch, hadUncommittedChanges: true }),
      bundle,
    })
    const before = place.shell('cat a.txt .git/HEAD .git/config; sha1sum .git/index')

    const first = await runCli(['fetch', RUN_ID], { env })
    const inside = await runCli(['fetch', RUN_ID], { env, cwd: place.project })
    const again = await runCli(['fetch', RUN_ID, '--json'], { env })

    expect(first).toMatchObject({ status: 0, stdout: `${REF}\n` })
    expect(first.stderr).toContain(`git -C ${place.project} diff HEAD...${REF}`)
    expect(first.stderr).toContain(`git -C ${place.project} merge ${REF}`)
    expect(inside.stderr).toContain(`Merge:   git merge ${REF}`)
    expect(first.stderr).toContain('Commit or stash')
    expect(JSON.parse(again.stdout)).toMatchObject({ ref: REF, commit: branch.commit, isKnown: true })
    expect(place.shell('cat a.txt .git/HEAD .git/config; sha1sum .git/index')).toBe(before)
    expect(existsSync(join(place.home, 'ran'))).toBe(false)
    expect(
      place.shell(
        `git -c core.fsmonitor=false log --format=%s ${REF}; git for-each-ref --format='%(refname)'`,
      ),
    ).toBe(`second\nfirst\n${REF}\nrefs/heads/main\n`)
  })

  test('fetches commits into a worktree, a shallow clone and another clone', async () => {
    const place = aRepository()
    place.shell(
      'git worktree add -q ../tree -b tree; echo 2 >>a.txt; git commit -qam 2; git clone -q --depth 1 "file://$PWD" ../shallow; git clone -q . ../clone',
    )
    const { bundle, branch } = await aBundle(place, DETACHED_COMMIT)
    const env = await startResults('/nowhere', { diff: aDiff({ branch }), bundle })

    for (const name of ['tree', 'shallow', 'clone']) {
      const folder = join(place.folder, name)
      expect(await runCli(['fetch', RUN_ID, '--repo', folder], { env }), name).toMatchObject({ status: 0 })
      expect(place.shell(`git show ${REF}:a.txt`, folder)).toContain('two')
    }
    const nowhere = await runCli(['fetch', RUN_ID], { env })
    expect(nowhere.status).toBe(2)
    expect(nowhere.stderr).toContain('--repo DIR')
  })

  test.each([
    [
      'a tree that contains a git directory',
      `git checkout -q --detach; blob=$(echo evil | git hash-object -w --stdin); inner=$(printf '100644 blob %s\\tconfig\\n' $blob | git mktree); outer=$(printf '040000 tree %s\\t.git\\n' $inner | git mktree); git update-ref HEAD $(git commit-tree $outer -p main -m evil)`,
    ],
    [
      'a tree with a path outside the repository',
      `git checkout -q --detach; blob=$(echo evil | git hash-object -w --stdin); inner=$(printf '100644 blob %s\\tx\\n' $blob | git mktree); outer=$(printf '040000 tree %s\\t..\\n' $inner | git mktree); git update-ref HEAD $(git commit-tree $outer -p main -m evil)`,
    ],
    [
      'a symbolic link as .gitmodules',
      `git checkout -q --detach; blob=$(printf /etc/passwd | git hash-object -w --stdin); tree=$(printf '120000 blob %s\\t.gitmodules\\n' $blob | git mktree); git update-ref HEAD $(git commit-tree $tree -p main -m evil)`,
    ],
    [
      'a submodule whose URL is an option',
      `git checkout -q --detach; printf '[submodule "x"]\\n path = x\\n url = --upload-pack=evil\\n' >.gitmodules; git add .; git commit -qm evil`,
    ],
    [
      'an invalid commit',
      `git checkout -q --detach; c=$(printf 'tree %s\\nevil\\n' $(git rev-parse main^{tree}) | git hash-object -t commit -w --stdin --literally); printf '%s\\n' $c >.git/HEAD`,
    ],
  ])('rejects %s and leaves the repository unchanged', async (_, script) => {
    const place = aRepository()
    const { bundle, branch } = await aBundle(place, script)
    const env = await startResults(place.project, { diff: aDiff({ branch }), bundle })
    expect(
      place.attempt(`git fetch -q ../run.bundle ${REF}:refs/heads/control && echo taken`),
      'plain git takes it',
    ).toContain('taken')
    place.shell('git update-ref -d refs/heads/control; git gc -q --prune=now')

    const { status, stderr } = await runCli(['fetch', RUN_ID], { env })

    expect(status).toBe(1)
    expect(stderr).toMatch(/cannot be taken/)
    expect(
      place.shell(
        'git for-each-ref --format="%(refname)"; git cat-file --batch-check --batch-all-objects | wc -l',
      ),
    ).toBe('refs/heads/main\n3\n')
  })

  test('accepts only the ref of the run and the announced commit', async () => {
    const place = aRepository()
    const { bundle, branch } = await aBundle(
      place,
      `${DETACHED_COMMIT}; git update-ref refs/heads/main HEAD; git update-ref refs/heads/evil HEAD`,
    )
    place.shell('cd ../agent; git bundle create -q ../run.bundle --all')
    const all = await readFile(join(place.folder, 'run.bundle'))
    const announced = { ...branch, bytes: all.length, sha256: createHash('sha256').update(all).digest('hex') }
    const env = await startResults(place.project, { diff: aDiff({ branch: announced }), bundle: all })
    const lying = await startResults(place.project, {
      diff: aDiff({ branch: { ...announced, commit: place.shell('git rev-parse main').trim() } }),
      bundle: all,
    })
    const cut = await startResults(place.project, { diff: aDiff({ branch: announced }), bundle })
    const other = await startResults(place.project, {
      diff: aDiff({ branch: { ...announced, ref: `refs/agentweaver/run_${'f'.repeat(32)}` } }),
      bundle: all,
    })

    for (const wrong of [lying, cut, other])
      expect((await runCli(['fetch', RUN_ID], { env: wrong })).status).not.toBe(0)
    const main = place.shell('git rev-parse main')
    const { status } = await runCli(['fetch', RUN_ID], { env })

    expect(status).toBe(0)
    expect(place.shell('git rev-parse main')).toBe(main)
    expect(place.shell('git for-each-ref --format="%(refname)"')).toBe(`${REF}\nrefs/heads/main\n`)
  })

  test('does not overwrite an existing ref with another commit', async () => {
    const place = aRepository()
    const { bundle, branch } = await aBundle(place, DETACHED_COMMIT)
    place.shell(`git update-ref ${REF} main`)
    const env = await startResults(place.project, { diff: aDiff({ branch }), bundle })

    const { status, stderr } = await runCli(['fetch', RUN_ID], { env })

    expect(status).toBe(6)
    expect(stderr).toContain(`git update-ref -d ${REF}`)
  })

  test('says why there is nothing to fetch', async () => {
    const env = await startResults('/nowhere', { diff: aDiff() })

    expect(await runCli(['fetch', RUN_ID], { env })).toMatchObject({
      status: 3,
      stderr: expect.stringMatching(/changed nothing that git tracks/),
    })
  })
})

describe('the summary at the end of a run', () => {
  const lines = (diff: RunDiff, mode: 'isolated' | 'in-place', isEmbedded = false) =>
    resultLines(
      diff,
      { run: aRun({ workspace: { kind: 'path', path: '/my project', mode } }), suffix: '', isEmbedded },
      createPaint(false),
    )
  const branch = {
    ref: REF,
    commit: '0'.repeat(40),
    commits: 1,
    bytes: 1,
    sha256: '0'.repeat(64),
    otherBranches: [],
  }
  const handOff = [{ path: 'Makefile\u001b[2J', kind: 'build' }]

  test('starts with hand-off files and escapes hidden characters', () => {
    const [, first, second, third, fourth] = lines(aDiff({ handOff, branch }), 'in-place')

    expect(first).toMatch(/execute or obey/)
    expect(second).toContain('Makefile<U+001B>[2J')
    expect(third).toMatch(/runs the agent's code with your rights/)
    expect(fourth).toBe("To run them in a sandbox: agentweaver sandbox create --workspace '/my project'")
  })

  test('names the command that runs the tests of an uploaded workspace in a sandbox', () => {
    const run = aRun({ workspace: { kind: 'upload' } })
    const place = { run, suffix: '', isEmbedded: false }

    const shown = resultLines(aDiff({ handOff, branch }), place, createPaint(false)).join('\n')

    expect(shown).toContain(`agentweaver exec ${run.id} -- npm test`)
  })

  test('suggests only commands that work: a sandbox needs a running service', () => {
    expect(lines(aDiff({ handOff, branch }), 'in-place', true).join('\n')).not.toContain('sandbox create')
  })

  test('says where the changes are', () => {
    expect(lines(aDiff({ branch }), 'isolated').at(-1)).toMatch(/Your folder is as it was.*agentweaver fetch/)
    expect(lines(aDiff({ branch }), 'in-place').at(-1)).toMatch(/changed in your folder/)
    expect(lines(aDiff({ fileCount: 0, files: [] }), 'isolated').at(-1)).toMatch(/changed nothing/)
    expect(lines(aDiff({ problems: ['It is missing.'] }), 'isolated')).toContain('It is missing.')
  })
})

test('run works on a copy and prints its results, and diff and fetch read them', {
  timeout: 120_000,
}, async () => {
  const place = aRepository()
  await mkdir(join(place.folder, 'state'), { mode: 0o700 })
  const command = 'echo two >>a.txt; printf "all:\\n\\ttrue\\n" >Makefile'
  const plan = { turns: [[{ kind: 'tool', tool: 'run_command', arguments: { command } }]] }
  await writeFile(join(place.folder, 'plan.json'), JSON.stringify(plan))
  const settings = { env: { HOME: place.home, AGENTWEAVER_WORKSPACE_ROOTS: place.folder }, cwd: place.folder }

  const run = await runCli(['run', 'work', '-w', 'project', '--plan', 'plan.json'], {
    ...settings,
    withinMs: 90_000,
  })
  const id = run.stderr.match(/run_[0-9a-f]{32}/)?.[0] ?? ''
  const patch = await runCli(['diff', id], settings)
  const fetched = await runCli(['fetch', id], settings)

  expect(run.status).toBe(0)
  expect(run.stdout).toContain(`a copy of ${place.project}`)
  expect(run.stderr).toMatch(/execute or obey:\n {2}Makefile {2}build\n/)
  expect(patch.stdout).toContain('+two\n')
  expect(fetched.stdout).toBe(`refs/agentweaver/${id}\n`)
  expect(place.shell(`git status --short; git merge -q refs/agentweaver/${id}; cat a.txt`)).toBe('one\ntwo\n')
})

test('run reports that it works in place', { timeout: 120_000 }, async () => {
  const place = aPlace()
  await writeFile(join(place.folder, 'plan.json'), JSON.stringify({ turns: [[{ kind: 'say', text: 'hi' }]] }))
  const settings = { env: { HOME: place.home, AGENTWEAVER_WORKSPACE_ROOTS: place.folder }, cwd: place.folder }
  place.shell('git init -q')

  const { stdout, status } = await runCli(
    ['run', 'work', '-w', 'project', '--in-place', '--plan', 'plan.json'],
    {
      ...settings,
      withinMs: 90_000,
    },
  )

  expect(status).toBe(0)
  expect(stdout).toContain(`${place.project} itself, with a private git directory`)
})
