import { existsSync, lstatSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'
import { afterRun, runIn, runOn } from './folder-rig.ts'
import { aPlace, aRepository, type Place } from './repository.ts'

/** A program that leaves a marker file in the home folder of the user who runs it. */
const MARK = 'evil'
const PROGRAM = `printf '#!/bin/sh\\ntouch "$HOME/${MARK}"\\n' >evil.sh; chmod +x evil.sh`
const isMarked = ({ home }: Place) => existsSync(join(home, MARK))

type Attack = {
  readonly name: string
  /** Script that the user runs before the run. */
  readonly given?: string
  readonly command: string
  /** Command that the user runs after the run. */
  readonly after: string
  /** The attack reaches git through a folder without a git directory. */
  readonly isWithoutGit?: boolean
}

const ATTACKS: Attack[] = [
  { name: 'fsmonitor', command: `${PROGRAM}; git config core.fsmonitor ./evil.sh`, after: 'git status' },
  {
    name: 'a hook',
    command: `${PROGRAM}; mkdir -p .git/hooks; cp evil.sh .git/hooks/pre-commit`,
    after: 'git commit -q --allow-empty -m x',
  },
  {
    name: 'another git directory in place of its own',
    command: `${PROGRAM}; mv .git g; git init -q; git config core.fsmonitor ./evil.sh`,
    after: 'git status',
  },
  {
    name: 'a common directory elsewhere',
    command: `${PROGRAM}; git init -q --bare common; git -C common config core.bare false; git -C common config core.fsmonitor ./evil.sh; echo ../common >.git/commondir`,
    after: 'git status',
  },
  {
    name: 'a repository in a folder',
    command: `mkdir sub; cd sub; git init -q; ${PROGRAM}; git config core.fsmonitor ./evil.sh`,
    after: 'cd sub; git status',
  },
  {
    name: 'a git file with its own configuration',
    command: `mkdir sub; git init -q --bare other; git -C other config core.bare false; git -C other config core.fsmonitor ../evil.sh; ${PROGRAM}; echo 'gitdir: ../other' >sub/.git`,
    after: 'cd sub; git status',
  },
  {
    name: 'a link to a git directory',
    command: `mkdir sub; git init -q --bare other; git -C other config core.bare false; git -C other config core.fsmonitor ../evil.sh; ${PROGRAM}; ln -s ../other sub/.git`,
    after: 'cd sub; git status',
  },
  {
    name: 'a bare repository in a folder',
    command: `git init -q --bare sub; cd sub; ${PROGRAM}; git config core.bare false; git config core.worktree .; git config core.fsmonitor ./evil.sh`,
    after: 'cd sub; git status',
  },
  {
    name: 'a bare repository whose objects are elsewhere',
    command: `git init -q --bare other; mkdir sub; cp other/HEAD sub; echo ../other >sub/commondir; git -C other config extensions.worktreeConfig true; git -C other config core.repositoryformatversion 1; printf '[core]\\n bare = false\\n worktree = .\\n fsmonitor = ./evil.sh\\n' >sub/config.worktree; ${PROGRAM}; cp evil.sh sub`,
    after: 'cd sub; git status',
  },
  {
    name: "the user's include",
    given:
      'echo "[user]" >shared.gitconfig; git add .; git commit -qm shared; git config include.path ../shared.gitconfig',
    command: `${PROGRAM}; printf '[core]\\n fsmonitor = ./evil.sh\\n' >>shared.gitconfig || { rm shared.gitconfig; printf '[core]\\n fsmonitor = ./evil.sh\\n' >shared.gitconfig; }`,
    after: 'git status',
  },
  {
    name: 'a missing include',
    given: 'git config include.path ../shared.gitconfig',
    command: `${PROGRAM}; printf '[core]\\n fsmonitor = ./evil.sh\\n' >shared.gitconfig`,
    after: 'git status',
  },
  {
    name: "the user's hooks folder",
    given:
      'mkdir hooks; printf "#!/bin/sh\\n" >hooks/pre-commit; chmod +x hooks/pre-commit; git add .; git commit -qm hooks; git config core.hooksPath hooks',
    command: `${PROGRAM}; cp evil.sh hooks/pre-commit; mv hooks old; mkdir hooks; cp evil.sh hooks/pre-commit`,
    after: 'git commit -q --allow-empty -m x',
  },
  {
    name: 'a missing hooks folder',
    given: 'git config core.hooksPath tools/hooks',
    command: `${PROGRAM}; mkdir -p tools/hooks; cp evil.sh tools/hooks/pre-commit`,
    after: 'git commit -q --allow-empty -m x',
  },
  {
    name: "the user's filter",
    given:
      'mkdir tools; printf "#!/bin/sh\\ncat\\n" >tools/clean.sh; chmod +x tools/clean.sh; git add .; git commit -qm tools; git config filter.x.clean "sh ./tools/clean.sh %f"',
    command: `${PROGRAM}; cp evil.sh tools/clean.sh; mv tools old; mkdir tools; cp evil.sh tools/clean.sh; echo '*.txt filter=x' >.gitattributes; echo more >>a.txt`,
    after: 'git add a.txt',
  },
  {
    name: "the user's textconv",
    given:
      'printf "#!/bin/sh\\ncat\\n" >conv.sh; chmod +x conv.sh; git add .; git commit -qm conv; git config diff.x.textconv ./conv.sh',
    command: `${PROGRAM}; cp evil.sh conv.sh; echo '*.txt diff=x' >.gitattributes; echo more >>a.txt`,
    after: 'git diff',
  },
  {
    name: "the user's alias",
    given:
      'printf "#!/bin/sh\\n" >go.sh; chmod +x go.sh; git add .; git commit -qm go; git config alias.go "!bash go.sh"',
    command: `${PROGRAM}; cp evil.sh go.sh`,
    after: 'git go',
  },
  {
    name: "the user's filter, named from the top of the working tree",
    given: `mkdir tools; printf '#!/bin/sh\\ncat\\n' >tools/clean.sh; chmod +x tools/clean.sh; git add .; git commit -qm tools; git config filter.x.clean '"$(git rev-parse --show-toplevel)"/tools/clean.sh'`,
    command: `${PROGRAM}; cp evil.sh tools/clean.sh; echo '*.txt filter=x' >.gitattributes; echo more >>a.txt`,
    after: 'git add a.txt',
  },
  {
    name: 'a missing program, named from the top of the working tree',
    given: `git config core.fsmonitor '"$(git rev-parse --show-toplevel)/tools/watch.sh"'`,
    command: `${PROGRAM}; mkdir tools; cp evil.sh tools/watch.sh`,
    after: 'git status',
  },
  {
    name: "the user's alias that changes to a folder",
    given: `mkdir tools; printf '#!/bin/sh\\n' >tools/go.sh; chmod +x tools/go.sh; git add .; git commit -qm go; git config alias.go '!cd tools && ./go.sh'`,
    command: `${PROGRAM}; cp evil.sh tools/go.sh`,
    after: 'git go',
  },
  {
    name: "the user's program with a blank in its name",
    given: `mkdir 'my tools'; printf '#!/bin/sh\\ncat "$1"\\n' >'my tools/conv.sh'; chmod +x my*/conv.sh; git add .; git commit -qm conv; git config diff.x.textconv '"./my tools/conv.sh"'`,
    command: `${PROGRAM}; cp evil.sh 'my tools/conv.sh'; echo '*.txt diff=x' >.gitattributes; echo more >>a.txt`,
    after: 'git diff',
  },
  {
    name: "the user's repository in a folder",
    given: 'mkdir lib; cd lib; git init -q; echo l >l; git add .; git commit -qm l',
    command: `cd lib; ${PROGRAM}; git config core.fsmonitor ./evil.sh; mv .git g && mv g .git`,
    after: 'cd lib; git status',
  },
  {
    name: "the user's bare repository in a folder",
    given: 'git init -q --bare lib.git',
    command: `cd lib.git; ${PROGRAM}; mkdir -p hooks; cp evil.sh hooks/post-update; cp evil.sh hooks/update; cp evil.sh hooks/pre-receive`,
    after: 'git push -q ./lib.git HEAD:refs/heads/main',
  },
  {
    name: "the user's unfinished git directory in a folder",
    given: 'mkdir -p half/.git',
    command: `cd half; ${PROGRAM}; git init -q; git config core.fsmonitor ./evil.sh`,
    after: 'cd half; git status',
  },
  {
    name: 'a git directory in a folder without one',
    isWithoutGit: true,
    command: `${PROGRAM}; git init -q; git config core.fsmonitor ./evil.sh`,
    after: 'git status',
  },
]

const givenFor = ({ isWithoutGit, given }: Attack) => {
  const place = isWithoutGit ? aPlace() : aRepository()
  if (given !== undefined) place.shell(given)
  return place
}

describe.each(ISOLATING_BACKENDS)("the user's git after an in-place run under $name", (backend) => {
  it.each(ATTACKS)('does not execute $name written by the run', async (attack) => {
    const control = givenFor(attack)
    await runIn(backend, { workspace: control.project }, [attack.command])
    control.attempt(attack.after)
    const place = givenFor(attack)

    await afterRun(place, { mode: 'in-place', commands: [attack.command], backend })
    place.attempt(attack.after)

    expect(isMarked(control), 'the attack works without the defence').toBe(true)
    expect(isMarked(place)).toBe(false)
  })
})

describe("the user's git directory", () => {
  it('is unchanged by an in-place run, and the run sees none of its secrets', async () => {
    const place = aRepository()
    place.shell(
      'git config user.name a; git config user.email a@b.example; git config remote.origin.url https://me:hunter2@example.com/r.git; git config http.extraHeader "Authorization: hunter2"; git config credential.helper "!echo hunter2"',
    )
    const before = place.shell('find .git -type f | sort | xargs sha1sum; git log --format=%H')

    const { outcomes } = await afterRun(place, {
      mode: 'in-place',
      commands: [
        'echo two >>a.txt; git commit -qam second; git tag t; git branch b; git gc -q; git stash -q; git log --format=%s',
        'cat .git/config; git config --list; git remote -v',
      ],
    })

    expect(outcomes[0]?.stdout).toBe('second\nfirst\n')
    expect(outcomes[1]?.stdout).toContain('https://example.com/r.git')
    expect(outcomes.map(({ stdout, stderr }) => stdout + stderr).join('')).not.toContain('hunter2')
    expect(place.shell('find .git -type f | sort | xargs sha1sum; git log --format=%H')).toBe(before)
    expect(readFileSync(join(place.project, 'a.txt'), 'utf8')).toBe('one\ntwo\n')
  })

  it('is not created by an in-place run in a folder without one', async () => {
    const place = aPlace()

    const { outcomes, conclusion } = await afterRun(place, {
      mode: 'in-place',
      commands: [
        'git config user.name a; git config user.email a@b.example; echo x >x; git add .; git commit -qm x; git log --format=%s',
      ],
    })

    expect(outcomes[0]?.stdout).toBe('x\n')
    expect(existsSync(join(place.project, '.git'))).toBe(false)
    expect(conclusion.diff?.files).toMatchObject([{ path: 'x', status: 'added' }])
    expect(conclusion.branch).toBeUndefined()
  })

  it('is kept if the user created it during the run', async () => {
    const place = aPlace()
    const run = runOn(place, 'in-place')
    await run.prepare()
    place.shell('git init -q; echo mine >mine')

    await run.run('echo x >x')
    await run.conclude()

    expect(place.shell('git status --short')).toBe('?? mine\n?? x\n')
  })
})

describe('folders that are rejected', () => {
  it.each([
    ['a link in place of its git directory', 'mv .git ../g; ln -s ../g .git', /symbolic link/],
    ['a link in place of its objects', 'mv .git/objects ../o; ln -s ../../o .git/objects', /is not a folder/],
    ['a link in place of a ref', 'ln -s ../../../../x .git/refs/heads/evil', /symbolic link/],
    [
      'objects of another repository',
      'mkdir ../o; echo "$PWD/../o" >.git/objects/info/alternates',
      /borrows objects/,
    ],
    [
      'a common directory of another repository',
      'echo ../../other/.git >.git/commondir',
      /uses the objects of another repository/,
    ],
    ['refs in the reftable format', 'mkdir .git/reftable', /reftable/],
    [
      'an unknown extension',
      'git config core.repositoryformatversion 1; git config extensions.newThing x',
      /newthing/,
    ],
    [
      'missing objects',
      'git config core.repositoryformatversion 1; git config extensions.partialClone origin; git config remote.origin.url x',
      /partial clone/,
    ],
    [
      'a folder that is itself a bare repository',
      'mv .git/* .; rm -rf .git; git config core.bare true',
      /bare repository/,
    ],
  ])('rejects %s', async (_, script, reason) => {
    const place = aRepository()
    place.attempt(script)

    await expect(runOn(place, 'in-place').prepare()).rejects.toMatchObject({
      code: 'workspace_invalid',
      message: expect.stringMatching(reason),
    })
    expect(existsSync(join(place.folder, 'state', 'run'))).toBe(false)
  })

  it('rejects a git file that names a repository which does not name the folder', async () => {
    const secret = aRepository()
    const place = aPlace()
    writeFileSync(join(place.project, '.git'), `gitdir: ${secret.project}/.git\n`)
    expect(place.shell('git log --format=%s'), 'git itself believes it').toBe('first\n')

    await expect(runOn(place, 'in-place').prepare()).rejects.toThrow(/does not name .* as its working tree/)
  })

  it('rejects a setting that names files behind a link, or the whole folder', async () => {
    const linked = aRepository()
    linked.shell('mkdir real; ln -s real hooks; git config core.hooksPath hooks')
    const whole = aRepository()
    whole.shell('git config core.hooksPath .')

    await expect(runOn(linked, 'in-place').prepare()).rejects.toThrow(/core.hookspath.*symbolic link/)
    await expect(runOn(whole, 'in-place').prepare()).rejects.toThrow(/the whole folder/)
  })

  it('leaves nothing behind in a rejected folder', async () => {
    const place = aRepository()
    place.shell('git config include.path ../missing; ln -s nowhere hooks; git config core.hooksPath hooks')

    await expect(runOn(place, 'in-place').prepare()).rejects.toThrow(/symbolic link/)

    expect(place.shell('git status --short')).toBe('?? hooks\n')
    expect(lstatSync(join(place.project, 'hooks')).isSymbolicLink()).toBe(true)
  })
})
