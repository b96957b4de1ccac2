import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { afterRun, RUN_ID } from './folder-rig.ts'
import { aRepository, type Place } from './repository.ts'

const REF = `refs/agentweaver/${RUN_ID}`
const IDENTITY = 'git config user.name Agent; git config user.email agent@example.com'
const EVIL = 'EVIL LINE'

const isolated = (place: Place, ...commands: string[]) => afterRun(place, { mode: 'isolated', commands })

describe('the diff of a run', () => {
  it.each([
    ['a flag in the index', 'git update-index --assume-unchanged a.txt', 'git diff'],
    ['another flag in the index', 'git update-index --skip-worktree a.txt', 'git diff'],
    ['attributes', 'echo "a.txt binary" >.gitattributes', 'git diff a.txt | grep -v Binary'],
    [
      'an attribute in its git directory',
      'echo "a.txt -diff" >.git/info/attributes',
      'git diff a.txt | grep -v Binary',
    ],
    [
      'ignore rules',
      'echo "a.txt" >.gitignore; git rm -q --cached a.txt; git commit -qm x',
      'git status --short',
    ],
    [
      'a replaced object',
      'blob=$(git hash-object -w a.txt); git replace $(git rev-parse HEAD:a.txt) $blob; git add a.txt; git commit -qm x',
      'git diff HEAD~ HEAD a.txt',
    ],
    [
      'a planted object',
      'blob=$(git hash-object -w a.txt); old=$(git rev-parse HEAD:a.txt); f() { echo .git/objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); }; mkdir -p $(dirname $(f $old)); cp $(f $blob) $(f $old)',
      'git cat-file -p HEAD:a.txt | diff - a.txt',
    ],
  ])('shows an edit that the run hid by %s', async (_, hide, look) => {
    const place = aRepository()

    const { outcomes, patch } = await isolated(place, `${IDENTITY}; echo '${EVIL}' >>a.txt; ${hide}`, look)

    expect(outcomes[1]?.stdout ?? '', 'what git in the sandbox says').not.toContain(EVIL)
    expect(patch).toContain(`+${EVIL}`)
  })

  it('shows the target of a link, not the content behind it', async () => {
    const place = aRepository()
    writeFileSync(join(place.folder, 'secret'), 'hunter2')

    const { patch, conclusion } = await isolated(
      place,
      `ln -sf ${place.folder}/secret a.txt; ln -s /etc/passwd p`,
    )

    expect(patch).toContain(`+${place.folder}/secret`)
    expect(patch).not.toMatch(/hunter2|root:/)
    expect(conclusion.diff?.files).toMatchObject([{ path: 'a.txt', status: 'type changed' }, { path: 'p' }])
  })

  it('keeps unusual names, modes, renames and binary files', async () => {
    const place = aRepository()
    place.shell('seq 100 >moved; printf "\\000\\001" >binary; git add .; git commit -qm more')

    const { conclusion } = await isolated(
      place,
      `mv moved there; chmod +x a.txt; printf '\\000\\002' >binary; echo 1 >'new
line'; echo 2 >-rf; echo 3 >'*'; echo 4 >':(top)x'; echo 5 >"$(printf 'b\\377')"; echo 6 >'a"b\\c'; echo 7 >über`,
    )

    expect(conclusion.problems).toEqual([])
    expect(conclusion.diff?.files.map(({ path, status, from }) => [path, status, from]).sort()).toEqual(
      [
        ['*', 'added', undefined],
        ['-rf', 'added', undefined],
        [':(top)x', 'added', undefined],
        ['a"b\\c', 'added', undefined],
        ['a.txt', 'modified', undefined],
        ['binary', 'modified', undefined],
        ['b\ufffd', 'added', undefined],
        ['new\nline', 'added', undefined],
        ['there', 'renamed', 'moved'],
        ['über', 'added', undefined],
      ].sort(),
    )
    expect(conclusion.diff?.files.find(({ path }) => path === 'binary')?.additions).toBeUndefined()
    const file = join(place.folder, 'run.bundle')
    writeFileSync(file, conclusion.branch?.bundle ?? '')
    place.shell(`git fetch -q '${file}' ${REF}:${REF}`)
    expect(place.shell(`git ls-tree -z --name-only ${REF}`).split('\0')).toHaveLength(11)
  })

  it('names content that is too large to store, and the branch contains it', async () => {
    const place = aRepository()

    const { patch, conclusion } = await isolated(place, 'head -c 17000000 /dev/zero >large; echo x >x')

    expect(patch).toMatch(/agentweaver: 17000000 bytes that are not shown/)
    expect(conclusion.branch?.bundle.length).toBeGreaterThan(100)
    expect(conclusion.isComplete).toBe(true)
  })
})

describe('the results of a hostile git directory', () => {
  /** Programs that git's configuration can name. Each leaves a marker wherever it can. */
  const PROGRAMS = [
    `printf '#!/bin/sh\\nfor d in /run/out /run/in /run/result /run/base /run/after /workspace /workspace/.git /tmp; do echo marked >$d/mark; rm -rf $d/patch $d/raw; done 2>/dev/null\\necho evil\\n' >/workspace/p.sh; chmod +x p.sh`,
    'for key in core.fsmonitor core.editor core.pager core.sshCommand core.alternateRefsCommand core.gitProxy diff.external gpg.program credential.helper uploadpack.packObjectsHook filter.x.clean filter.x.smudge filter.x.process diff.x.textconv diff.x.command merge.x.driver; do git config $key /workspace/p.sh; done',
    'git config core.hooksPath /workspace/hooks; mkdir hooks; for hook in post-index-change reference-transaction pre-commit post-checkout; do cp p.sh hooks/$hook; done',
    'git config filter.x.required true; git config core.attributesFile /workspace/attributes; echo "* filter=x diff=x merge=x" | tee attributes .gitattributes >.git/info/attributes',
    'git config alias.rev-parse "!/workspace/p.sh"; git config alias.for-each-ref "!/workspace/p.sh"; git config core.worktree /run; git config core.bare false',
  ].join('; ')

  it('are correct, and none of its programs has run', async () => {
    const place = aRepository()

    const { patch, conclusion, record } = await isolated(place, `echo '${EVIL}' >>a.txt; ${PROGRAMS}`)

    expect(patch).toContain(`+${EVIL}`)
    expect(conclusion.isComplete).toBe(true)
    const state = join(place.folder, 'state', RUN_ID)
    for (const folder of ['scratch/out', 'scratch/in', 'base', 'after', 'git-0'])
      expect(existsSync(join(state, folder, 'mark')), folder).toBe(false)
    expect(existsSync(join(record.root, 'mark'))).toBe(false)
    writeFileSync(join(place.folder, 'run.bundle'), conclusion.branch?.bundle ?? '')
    place.shell(`git fetch -q ../run.bundle ${REF}:${REF}`)
    expect(place.shell(`git show ${REF}:a.txt`)).toBe(`one\n${EVIL}\n`)
  })

  it.each([
    ['no HEAD', 'rm .git/HEAD'],
    ['a HEAD that is a link elsewhere', 'rm .git/HEAD; ln -s /etc/passwd .git/HEAD'],
    ['a HEAD without a commit', 'echo 0123456789012345678901234567890123456789 >.git/HEAD'],
    ['missing objects', 'rm -rf .git/objects; mkdir .git/objects'],
    ['objects that are a link elsewhere', 'rm -rf .git/objects; ln -s / .git/objects'],
    ['alternates that point elsewhere', 'printf "/etc\\n/proc\\n../../..\\n" >.git/objects/info/alternates'],
    ['an invalid configuration', 'echo "[[[" >.git/config'],
    ['an unknown format', 'git config core.repositoryformatversion 99'],
    ['missing refs', 'rm -rf .git/refs .git/packed-refs; mkdir .git/refs'],
    [
      'broken commits',
      'f=$(git rev-parse HEAD); chmod -R u+w .git; for o in $(find .git/objects -type f); do echo broken >$o; done',
    ],
    ['grafts', 'git rev-parse HEAD >.git/info/grafts; git replace --graft HEAD || true'],
  ])('contain all changes in one branch with %s', async (_, break_) => {
    const place = aRepository()

    const { patch, conclusion } = await isolated(
      place,
      `${IDENTITY}; echo two >>a.txt; git commit -qam second; echo x >x; ${break_}`,
    )

    expect(patch).toContain('+two')
    expect(conclusion.isComplete).toBe(true)
    writeFileSync(join(place.folder, 'run.bundle'), conclusion.branch?.bundle ?? '')
    place.shell(`git fetch -q ../run.bundle ${REF}:${REF}`)
    expect(place.shell(`git show ${REF}:a.txt ${REF}:x`)).toBe('one\ntwo\nx\n')
    expect(place.shell(`git merge-base main ${REF}; git rev-parse main`)).toMatch(/^(\w+)\n\1\n$/)
  })

  it('show an in-place run only what its commands saw', async () => {
    const place = aRepository()
    place.shell('git config remote.origin.url https://me:hunter2@example.com/r.git')

    const { conclusion } = await afterRun(place, {
      mode: 'in-place',
      commands: [
        'printf "#!/bin/sh\\ncp /workspace/.git/config /run/out/tip\\n" >p.sh; chmod +x p.sh; git config core.alternateRefsCommand /workspace/p.sh; git config core.fsmonitor /workspace/p.sh',
      ],
    })

    const out = join(place.folder, 'state', RUN_ID, 'scratch', 'out')
    for (const name of ['tip', 'heads', 'tree', 'commit'])
      if (existsSync(join(out, name))) expect(readFileSync(join(out, name), 'utf8')).not.toContain('hunter2')
    expect(conclusion.isComplete).toBe(true)
  })
})
