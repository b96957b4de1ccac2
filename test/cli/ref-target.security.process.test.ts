import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { openIsolatedGit } from '../../cli/program-call/isolated-git.ts'
import { withBranchStart } from '../../cli/results/commit-file.ts'
import { fetchBranch } from '../../cli/results/fetch-branch.ts'
import { requireSafeTarget } from '../../cli/results/ref-target.ts'
import { type FoundGit, findGit, type Repository } from '../../runtime/git/find-git.ts'
import { aRepository, type Place } from '../git/repository.ts'

const io = { env: { PATH: process.env['PATH'], GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' } }
const REF = 'refs/agentweaver/run_1'

function repositoryOf(found: FoundGit): Repository {
  if (found.kind !== 'repository') throw new Error(JSON.stringify(found))
  return found
}

/**
 * A repository, and a folder of the user outside it, which git must not change. In `script`, `$OUT` is the path of that folder.
 * `state` lists its files.
 */
function aTrap(script: string) {
  const place = aRepository()
  place.shell(`mkdir ../out; echo mine >../out/mine; OUT=$PWD/../out; ${script}`)
  const out = join(place.folder, 'out')
  const state = () =>
    readdirSync(out, { recursive: true, encoding: 'utf8' }).map((name) => [
      name,
      name === 'mine' ? readFileSync(join(out, name), 'utf8') : '',
    ])
  return { place, state }
}

async function branchIn({ project: folder }: Place, branch = 'team/settings'): Promise<string> {
  const repository = repositoryOf(await findGit(folder))
  return withBranchStart({ io, folder, repository, branch, path: 'settings' }, (start) =>
    start.commit('text\n', 'message\n'),
  )
}

/** A pack of one new commit, as an agent would send it. */
function aBundle(place: Place) {
  place.shell(
    `cp -r ../project ../agent; cd ../agent; echo two >>a.txt; git commit -qam second; git update-ref ${REF} HEAD; git bundle create -q ../run.bundle ${REF} ^HEAD~`,
  )
  const bytes = readFileSync(join(place.folder, 'run.bundle'))
  const commit = place.shell('git rev-parse HEAD', join(place.folder, 'agent')).trim()
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  return { bytes, branch: { ref: REF, commit, commits: 1, bytes: bytes.length, sha256, otherBranches: [] } }
}

const fetchInto = ({ project: folder }: Place, { bytes, branch }: ReturnType<typeof aBundle>) =>
  fetchBranch(io, { folder, branch, bundle: bundleOf(bytes) })

async function* bundleOf(bytes: Uint8Array) {
  yield bytes
}

const LINKS = [
  ['its log', (ref: string) => `mkdir -p .git/logs/$(dirname ${ref}); ln -s $OUT/mine .git/logs/${ref}`],
  ['a missing log', (ref: string) => `mkdir -p .git/logs/$(dirname ${ref}); ln -s $OUT/new .git/logs/${ref}`],
  [
    'a second name of its log',
    (ref: string) => `mkdir -p .git/logs/$(dirname ${ref}); ln $OUT/mine .git/logs/${ref}`,
  ],
  [
    'a folder of its log',
    (ref: string) =>
      `mkdir -p .git/logs/refs; rm -rf .git/logs/$(dirname ${ref}); ln -s $OUT .git/logs/$(dirname ${ref})`,
  ],
  ['all logs', () => 'rm -rf .git/logs; ln -s $OUT .git/logs'],
  [
    'a folder of the ref',
    (ref: string) => `rm -rf .git/$(dirname ${ref}); ln -s $OUT .git/$(dirname ${ref})`,
  ],
  ['the ref itself', (ref: string) => `mkdir -p .git/$(dirname ${ref}); ln -s $OUT/new .git/${ref}`],
  [
    'the log of HEAD',
    (ref: string) =>
      `git update-ref refs/heads/HEAD HEAD; git symbolic-ref HEAD ${ref}; mkdir -p .git/logs; ln -sfn $OUT/mine .git/logs/HEAD`,
  ],
  ['the packs', () => 'rm -rf .git/objects/pack; ln -s $OUT .git/objects/pack'],
  [
    'folders of objects',
    () => 'for i in $(seq 0 255); do d=.git/objects/$(printf %02x $i); [ -e $d ] || ln -s $OUT $d; done',
  ],
] as const

it.each(LINKS)('creates no branch if a link stands for %s', async (_, trap) => {
  const { place, state } = aTrap(trap('refs/heads/team/settings'))
  const before = state()

  await expect(branchIn(place)).rejects.toMatchObject({
    status: 6,
    message: expect.stringMatching(
      /^This repository is not safe to write to: .*(?:symbolic link|a second name)/,
    ),
  })

  expect(state()).toEqual(before)
})

it.each(LINKS)('fetches nothing if a link stands for %s', async (_, trap) => {
  const place = aRepository()
  const bundle = aBundle(place)
  place.shell(
    `mkdir ../out; echo mine >../out/mine; OUT=$PWD/../out; git config core.logAllRefUpdates always; ${trap(REF)}`,
  )

  await expect(fetchInto(place, bundle)).rejects.toMatchObject({ status: 6 })

  expect(readdirSync(join(place.folder, 'out'))).toEqual(['mine'])
  expect(readFileSync(join(place.folder, 'out/mine'), 'utf8')).toBe('mine\n')
})

it.each([
  ['its configuration', `git config hook.own.command 'touch ../out/new'`],
  [
    'an included file',
    `git config -f .git/more hook.own.command 'touch ../out/new'; git config include.path more`,
  ],
])('refuses a hook in %s, which newer versions of git run', async (_, script) => {
  const { place, state } = aTrap(script)
  const before = state()

  await expect(branchIn(place)).rejects.toThrow(/hook\.own\.command, so git would run a program/)

  expect(state()).toEqual(before)
})

it('does not change a HEAD that names the branch', async () => {
  const { place } = aTrap(
    'git update-ref refs/heads/HEAD HEAD; git symbolic-ref HEAD refs/heads/team/settings',
  )

  await expect(branchIn(place)).rejects.toThrow(/HEAD names refs\/heads\/team\/settings/)
})

it('reports a branch that has the name of a folder of the new one', async () => {
  const { place } = aTrap('git branch team')

  await expect(branchIn(place)).rejects.toThrow(/The branch cannot be created: .*refs\/heads\/team'? exists/)
})

it('does not copy a pack through a link with the temporary name of the pack', async () => {
  const place = aRepository()
  const bundle = aBundle(place)
  place.shell('cp -r . ../other')
  await fetchInto({ ...place, project: join(place.folder, 'other') }, bundle)
  const mine = join(place.folder, 'mine')
  writeFileSync(mine, 'mine\n')
  for (const name of readdirSync(join(place.folder, 'other/.git/objects/pack')))
    symlinkSync(mine, join(place.project, '.git/objects/pack', `${name}.agentweaver`))

  await fetchInto(place, bundle)

  expect(readFileSync(mine, 'utf8')).toBe('mine\n')
  expect(place.shell(`git log -1 --format=%s ${REF}; git fsck --strict`)).toBe('second\n')
})

it('writes no branch through a symbolic ref', async () => {
  const place = aRepository()
  place.shell('git symbolic-ref refs/heads/team/settings refs/heads/other')

  await expect(branchIn(place)).rejects.toThrow('The branch team/settings exists.')

  expect(place.shell('git for-each-ref --format="%(refname)"')).toBe('refs/heads/main\n')
})

it('refuses a repository or a working tree of another user', async () => {
  const place = aRepository()
  const target = { folder: place.project, repository: repositoryOf(await findGit(place.project)), ref: REF }
  const git = openIsolatedGit(io, place.folder)
  const uid = process.getuid?.() ?? 0

  await requireSafeTarget(git, target)

  const user = vi.spyOn(process, 'geteuid').mockReturnValue(uid + 1)
  onTestFinished(() => user.mockRestore())
  await expect(requireSafeTarget(git, target)).rejects.toThrow(
    `${place.project} belongs to another user (uid ${uid})`,
  )
})

it('refuses a repository whose refs are stored elsewhere', async () => {
  const place = aRepository()
  place.shell(`git config extensions.refStorage files:///tmp`)

  await expect(branchIn(place)).rejects.toThrow(/sets extensions.refStorage/)
})

it('runs no program and writes only the branch if the configuration names programs and other folders', async () => {
  const place = aRepository()
  const program = join(place.folder, 'evil.sh')
  writeFileSync(program, `#!/bin/sh\ntouch ${place.folder}/ran\n`, { mode: 0o755 })
  writeFileSync(
    join(place.folder, 'included'),
    `[core]\n fsmonitor = ${program}\n hooksPath = ${place.folder}\n pager = ${program}\n splitIndex = true\n worktree = /\n sshCommand = ${program}\n[diff]\n external = ${program}\n[gpg]\n program = ${program}\n[commit]\n gpgSign = true\n`,
  )
  place.shell(
    `git config include.path ${place.folder}/included; git config core.worktree /; cp ${program} .git/hooks/reference-transaction; cp ${program} ../reference-transaction; cp ${program} ../post-index-change`,
  )
  const before = readdirSync(join(place.project, '.git'))

  const commit = await branchIn(place)

  expect(existsSync(join(place.folder, 'ran'))).toBe(false)
  expect(readdirSync(join(place.project, '.git'))).toEqual(before)
  expect(place.shell(`git --git-dir=.git show ${commit}:settings`)).toBe('text\n')
})

it('allows no protocol that the repository allows', async () => {
  const place = aRepository()
  place.shell('git config protocol.ext.allow always')
  const git = openIsolatedGit(io, place.folder)

  await git([`--git-dir=${place.project}/.git`, 'ls-remote', `ext::touch ${place.folder}/ran`])

  expect(existsSync(join(place.folder, 'ran'))).toBe(false)
})

it('creates a branch in a linked worktree and in a submodule', async () => {
  const place = aRepository()
  place.shell(
    'git worktree add -q ../tree; cp -r . ../other; git -c protocol.file.allow=always submodule --quiet add ../other sub',
  )

  await branchIn({ ...place, project: join(place.folder, 'tree') })
  await branchIn({ ...place, project: join(place.project, 'sub') })

  expect(place.shell('git show team/settings:settings; git -C sub show team/settings:settings')).toBe(
    'text\ntext\n',
  )
})
