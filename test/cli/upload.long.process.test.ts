import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Run } from '../../contracts/api.ts'
import { createClient } from '../../runtime/client/client.ts'
import { aPlace, aRepository } from '../git/repository.ts'
import { aRun, RUN_ID } from './fake-service.ts'
import { aFolder, runCli, startAtTerminal, startCli, until } from './run-cli.ts'
import { useServiceAtUrl } from './upload-rig.ts'

const { service, state, uploadAndRun } = useServiceAtUrl()

describe('a folder is uploaded to a service at a URL', () => {
  test('its files are there, without ignored ones and without what looks like a secret', async () => {
    const place = aRepository()
    place.shell(`
      printf 'node_modules\\n*.log\\n' >.gitignore; echo 'big/' >.agentweaverignore
      mkdir -p node_modules/x big src; touch node_modules/x/i.js big/data trace.log; echo two >src/b.txt
      echo KEY=1 >.env; printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\\n' >notes.txt
      git add .gitignore; git commit -qm rules; echo changed >>a.txt; chmod 755 src/b.txt; ln -s src/b.txt link`)

    const { status, stdout, stderr } = await uploadAndRun(
      place,
      'find . -path ./.git -prune -o ! -type d -print | sort; test -x src/b.txt && git status --short && git log --format=%s && cat a.txt',
    )

    expect(status).toBe(0)
    const lines = stdout.split('\n').map((line) => line.replace(/^ *│ ?/, ''))
    expect(lines).toEqual(expect.arrayContaining(['./.gitignore', './a.txt', './link', './src/b.txt']))
    expect(lines).toEqual(expect.arrayContaining([' M a.txt', 'rules', 'first', 'one', 'changed']))
    expect(stdout).not.toMatch(/node_modules|trace\.log|\.\/big|\.\/\.env|notes\.txt/)
    expect(stderr).toMatch(/Uploading 5 files, .* git history\)/)
    expect(stderr).toMatch(/2 untracked files that may contain secrets:\n {2}\.env\n {2}notes\.txt/)
    expect(stderr).toContain('The folder is uploaded.')
    // The upload keeps no copy of the folder on this machine.
    expect((await readdir(place.folder)).sort()).toEqual(['home', 'plan.json', 'project'])
  })

  test('a file that looks like a secret is included when it is named', async () => {
    const place = aRepository()
    place.shell('echo KEY=0 >tracked.pem; git add tracked.pem; echo KEY=1 >.env; echo KEY=2 >.env.local')

    const { stdout, stderr } = await uploadAndRun(place, 'ls -A', ['--include-secret', '.env'])

    expect(stdout).toMatch(/ \.env$/m)
    expect(stdout).not.toContain('.env.local')
    expect(stderr).toMatch(/may contain secrets:\n {2}\.env\.local\n/)
    expect(stderr).toMatch(/Uploaded, because git tracks them: .*\n {2}tracked\.pem\n/)
    expect(stdout).toContain('tracked.pem')
  })

  test('the git directory has no credential, no program, no stash and no reflog of the user', async () => {
    const place = aRepository()
    place.shell(`
      git config remote.origin.url https://user:t0ken@git.example/a.git
      git config http.extraHeader 'Authorization: Bearer t0ken'; git config credential.helper '!echo t0ken'
      git config include.path ../t0ken; echo '[user]' >t0ken
      echo stashed-t0ken >a.txt; git stash -q; git commit -q --allow-empty -m t0ken-amended; git commit -q --amend --allow-empty -m second; rm t0ken
      echo 'exit 1' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit`)
    const control = place.shell(
      'grep -rl t0ken .git | wc -l; git cat-file --batch-all-objects --batch | grep -c t0ken',
    )

    const { status, stdout } = await uploadAndRun(
      place,
      'cat .git/config; ls .git; git stash list; git reflog; git cat-file --batch-all-objects --batch; git fsck && git commit -q --allow-empty -m works && echo committed',
    )

    expect(control.trim().split('\n').map(Number)).toEqual([expect.any(Number), 2])
    expect(status).toBe(0)
    expect(stdout).toContain('url = "https://git.example/a.git"')
    expect(stdout).toContain('committed')
    expect(stdout).not.toMatch(/t0ken|hooks|logs/)
  })

  test('nothing that the folder configures runs on the way', async () => {
    const place = aRepository()
    const marker = join(place.folder, 'ran')
    const program = `touch ${marker}`
    place.shell(`
      printf '#!/bin/sh\\n${program}\\n' >evil.sh; chmod +x evil.sh; cp evil.sh git; echo '*.txt filter=evil' >.gitattributes
      git config core.fsmonitor "$PWD/evil.sh"; git config filter.evil.clean "$PWD/evil.sh"; git config filter.evil.process "$PWD/evil.sh"
      for hook in post-index-change pre-commit reference-transaction; do cp evil.sh .git/hooks/$hook; done
      printf '[core]\\n\\tfsmonitor = %s\\n' "$PWD/evil.sh" >extra; git config include.path ../extra
      mkdir sub; cd sub; git init -q; git config core.fsmonitor "$PWD/../evil.sh"; echo s >s.txt`)
    rmSync(marker, { force: true })

    const { status, stdout } = await uploadAndRun(place, 'cat sub/s.txt')
    const isUntouched = !existsSync(marker)
    place.attempt('git status')

    expect([status, isUntouched]).toEqual([0, true])
    expect(stdout).toContain('│ s')
    // Git itself runs the program.
    expect(existsSync(marker)).toBe(true)
  })

  test('links, submodules and paths of a hostile index bring no file from outside', async () => {
    const place = aRepository()
    place.shell(
      'mkdir ../private; cd ../private; git init -q; echo pr1vate >p.txt; git add .; git commit -qm x',
    )
    place.shell(`
      mkdir inside; echo f1ne >inside/p.txt; ln -s inside good; ln -s ../private out; ln -s /etc/passwd passwd
      id=$(git hash-object -w a.txt); commit=$(git rev-parse HEAD)
      for path in out/p.txt good/p.txt; do git update-index --add --cacheinfo 100644,$id,$path; done
      git update-index --add --cacheinfo 160000,$commit,module; ln -s ../private module
      mkdir sub; echo "gitdir: $PWD/../private/.git" >sub/.git; echo s >sub/s.txt`)

    const { status, stdout, stderr } = await uploadAndRun(
      place,
      'cat good/p.txt; grep -r pr1vate . ; git cat-file --batch-all-objects --batch | grep pr1vate; ls -a sub; true',
    )

    expect(status).toBe(0)
    expect(stdout).toContain('│ f1ne')
    expect(stdout).toContain('│ s.txt')
    expect(stdout).not.toMatch(/pr1vate$/m)
    expect(stderr).toMatch(/passwd: the link leads out of the workspace/)
  })

  test.each([
    [
      'the folder of packs',
      'rm -r .git/objects/pack; ln -s ../../../private/.git/objects/pack .git/objects/pack',
    ],
    ['a pack', 'ln -s "$PWD"/../private/.git/objects/pack/* .git/objects/pack/'],
  ])('objects of another repository behind a link are not uploaded: %s', async (_name, script) => {
    const place = aRepository()
    place.shell(
      'mkdir ../private; cd ../private; git init -q; echo pr1vate >p.txt; git add .; git commit -qm x; git repack -adq',
    )
    place.shell(`${script}; git -C ../private rev-parse HEAD >.git/refs/heads/stolen`)

    const { status, stderr } = await uploadAndRun(place, 'true')

    // Git itself reads the other repository through the link.
    expect(place.shell('git show stolen:p.txt')).toBe('pr1vate\n')
    expect([status, stderr]).toEqual([2, expect.stringContaining('is a symbolic link')])
  })

  test('a git directory of another folder is not uploaded', async () => {
    const place = aRepository()
    place.shell('mkdir ../fake; echo "gitdir: $PWD/.git" >../fake/.git; echo x >../fake/x.txt')
    const fake = { ...place, project: join(place.folder, 'fake') }

    const refused = await uploadAndRun(fake, 'ls -A')
    const without = await uploadAndRun(fake, 'ls -A', ['--no-git'])

    expect([refused.status, without.status]).toEqual([2, 0])
    expect(refused.stderr).toContain('does not name')
    expect(without.stdout).toContain('│ x.txt')
    expect(without.stdout).not.toMatch(/a\.txt|│ \.git/)
  })

  test.each([
    ['with --no-git', 'git init -q', ['--no-git']],
    ['without a repository', 'true', []],
  ])('%s, the files are uploaded without history', async (_name, script, more) => {
    const place = aPlace()
    place.shell(`${script}; echo '*.tmp' >.gitignore; echo one >a.txt; touch b.tmp`)

    const { status, stdout, stderr } = await uploadAndRun(place, 'ls -A', more)

    expect(status).toBe(0)
    expect(stdout).toMatch(/a\.txt/)
    expect(stdout).not.toMatch(/ \.git$|b\.tmp/m)
    expect(stderr).toContain('2 files')
    expect(stderr).toContain('without git history')
  })

  test('the rules of the repository around the folder apply', async () => {
    const place = aRepository()
    place.shell(
      'echo build >.gitignore; mkdir -p part/build; touch part/build/out part/kept; git add -A; git commit -qm x',
    )

    const { status, stdout } = await uploadAndRun({ ...place, project: join(place.project, 'part') }, 'ls -A')

    expect(status).toBe(0)
    expect(stdout).toMatch(/│ kept/)
    expect(stdout).not.toMatch(/build|│ \.git/)
  })

  test('a shallow clone keeps its history', async () => {
    const place = aRepository()
    place.shell('git commit -q --allow-empty -m second; git commit -q --allow-empty -m third')
    place.shell('git clone -q --depth 2 file://$PWD ../shallow')

    const shallow = { ...place, project: join(place.folder, 'shallow') }
    const { status, stdout } = await uploadAndRun(shallow, 'git log --format=%s; git fsck && echo sound')

    expect(status).toBe(0)
    expect(stdout).toMatch(/third\n.*second\n.*sound/)
  })
})

test('the settings file of the first upload counts until the user accepts another one', async () => {
  const place = aRepository()
  const write = (text: string) =>
    place.shell(`mkdir -p .agentweaver; echo '${text}' >.agentweaver/settings.yml`)
  write('shell_enabled: false')
  const first = await uploadAndRun(place, 'echo it-ran')
  write('shell_enabled: true')
  const changed = await uploadAndRun(place, 'echo it-ran')
  const accepted = await uploadAndRun(place, 'echo it-ran', ['--accept-settings'])

  expect(first.stderr).toContain('is in force for uploads of this folder')
  expect(changed.stderr).toContain('To accept the file: --accept-settings')
  expect([first, changed, accepted].map(({ stdout }) => stdout.includes('│ it-ran'))).toEqual([
    false,
    false,
    true,
  ])
})

test('a damaged copy of the settings refuses the upload and says how to begin again', async () => {
  const place = aRepository()
  await uploadAndRun(place, 'true')
  const copies = join(place.home, '.config', 'agentweaver', 'uploads')
  const copy = join(copies, readdirSync(copies)[0] ?? '')
  writeFileSync(copy, '{"path":')

  const { status, stderr } = await uploadAndRun(place, 'true')
  rmSync(copy)
  const again = await uploadAndRun(place, 'true')

  expect(status).toBe(2)
  expect(stderr).toContain(`The copy of the settings of this folder is damaged: ${copy}.`)
  expect(again.status).toBe(0)
})

describe('refusals', () => {
  test('a folder that is too large is refused with its largest folders, before a run exists', async () => {
    const place = aRepository()
    mkdirSync(join(place.project, 'data'))
    writeFileSync(join(place.project, 'data', 'large.bin'), '')
    truncateSync(join(place.project, 'data', 'large.bin'), 1_200_000_000)
    const before = (await service().client.listRuns({})).items.length

    const { status, stderr } = await uploadAndRun(place, 'true')

    expect(status).toBe(2)
    expect(stderr).toMatch(/too large to upload: 1\.1 GiB, and the limit is 1\.0 GiB/)
    expect(stderr).toMatch(/The largest folders:\n +1\.1 GiB {2}data\n/)
    expect(stderr).toContain('.agentweaverignore')
    expect((await service().client.listRuns({})).items.length).toBe(before)
  })

  test.each([
    ['--in-place', ['--in-place'], '--in-place works only with your own service'],
    ['a partial clone', [], '--no-git'],
  ])('%s is refused with what to do', async (_name, more, expected) => {
    const place = aRepository()
    place.shell('git config extensions.partialClone origin; git config remote.origin.promisor true')

    const { status, stderr } = await uploadAndRun(place, 'true', more)

    expect(status).toBe(2)
    expect(stderr).toContain(expected)
  })

  test('the options of an upload are refused for the own service', async () => {
    const place = aRepository()
    const plan = join(place.folder, 'plan.json')
    writeFileSync(plan, JSON.stringify({ turns: [[{ kind: 'say', text: 'x' }]] }))

    const { status, stderr } = await runCli(['run', 'x', '-w', place.project, '--plan', plan, '--no-git'], {
      env: { HOME: state(), AGENTWEAVER_STATE_DIR: join(state(), 'state') },
    })

    expect([status, stderr]).toEqual([2, expect.stringContaining('a service at a URL')])
  })
})

/** A service that never reads the whole upload. */
async function startSlowService({ startsRuns = true } = {}) {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    const waiting: Run = aRun({ state: 'waiting_upload', workspace: { kind: 'upload' } })
    if (request.method === 'PUT' || !startsRuns) return
    if (request.url?.endsWith('/cancel')) response.end(JSON.stringify({ ...waiting, state: 'cancelled' }))
    else response.end(JSON.stringify(waiting))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { requests, env: { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: 'key' } }
}

describe('an upload that does not finish', () => {
  test('Ctrl-C cancels the run and leaves nothing', async () => {
    const slow = await startSlowService()
    const place = aRepository()
    const temporary = await aFolder('aw-upload-tmp-')
    const child = startCli(['run', 'x', '-w', place.project, '--agent', 'copilot'], {
      env: { ...slow.env, HOME: place.home, TMPDIR: temporary },
    })
    const stderr = text(child.stderr)
    await until('the upload has begun', () => slow.requests.includes(`PUT /api/runs/${RUN_ID}/workspace`))

    child.kill('SIGINT')
    const [status] = await once(child, 'exit')

    expect(status).toBe(130)
    expect(await stderr).toContain(`The upload was interrupted. Run ${RUN_ID} was ended.`)
    expect(slow.requests.at(-1)).toBe(`POST /api/runs/${RUN_ID}/cancel`)
    expect(await readdir(temporary)).toEqual([])
  })

  test('Ctrl-C before the run exists leaves nothing', async () => {
    const slow = await startSlowService({ startsRuns: false })
    const place = aRepository()
    const temporary = await aFolder('aw-upload-tmp-')
    const child = startCli(['run', 'x', '-w', place.project, '--agent', 'copilot'], {
      env: { ...slow.env, HOME: place.home, TMPDIR: temporary },
    })
    await until('the run is asked for', () => slow.requests.includes('POST /api/runs'))

    child.kill('SIGINT')
    const [status] = await once(child, 'exit')

    expect(status).toBe(130)
    expect(await readdir(temporary)).toEqual([])
  })

  test('the real service keeps no part of an upload that breaks off', async () => {
    const { id } = await service().client.startRun({
      task: 'x',
      workspace: { kind: 'upload' },
      agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'x' }]] } },
    })
    async function* broken() {
      yield new Uint8Array(1024)
      throw new Error('the client died')
    }

    const upload = createClient(service()).uploadWorkspace(id, broken())

    await expect(upload).rejects.toThrow()
    await service().client.cancel(id)
    expect((await service().client.readRun(id)).state).toBe('cancelled')
    await expect(service().client.downloadWorkspace(id)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('a terminal shows the progress', async () => {
    const slow = await startSlowService()
    const place = aRepository()
    await using terminal = startAtTerminal(['run', 'x', '-w', place.project, '--agent', 'copilot'], {
      env: { ...slow.env, HOME: place.home },
    })

    await terminal.shows(/uploading .* of .* \(\d+ %\)/)
    terminal.type('\u0003')

    expect(await terminal.exited).toBe(130)
  })
})

test('--json prints no progress', async () => {
  const place = aRepository()

  const { status, stdout, stderr } = await uploadAndRun(place, 'true', ['--json'])

  expect(status).toBe(0)
  expect(stderr).not.toMatch(/[Uu]pload/)
  for (const line of stdout.trimEnd().split('\n')) expect(JSON.parse(line)).toHaveProperty('event')
})
