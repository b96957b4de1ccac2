import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { ChangedFile, FileVersion, RunDiff } from '../../contracts/results.ts'
import { aPlace, type Place } from '../git/repository.ts'
import { aRun, RUN_ID } from './fake-service.ts'
import { runCli } from './run-cli.ts'

const versionOf = (content: string, mode: FileVersion['mode'] = 'file'): FileVersion => ({
  mode,
  size: Buffer.byteLength(content),
  sha256: createHash('sha256').update(content).digest('hex'),
})

type Made = {
  readonly path: string
  readonly before?: string
  readonly after?: string
  readonly mode?: FileVersion['mode']
  /** Another content in the archive than in the diff. */
  readonly sent?: string
}

const toFile = ({ path, before, after, mode }: Made): ChangedFile => ({
  path,
  status: before === undefined ? 'added' : after === undefined ? 'deleted' : 'modified',
  ...(before !== undefined && { before: versionOf(before) }),
  ...(after !== undefined && { after: versionOf(after, mode) }),
})

/** A service with one run that made these changes. */
async function startService(made: readonly Made[]) {
  const archive = pack()
  for (const { path, after, sent = after } of made)
    if (sent !== undefined) archive.entry({ name: path }, sent)
  archive.finalize()
  const workspace = await buffer(archive)
  const diff: RunDiff = {
    files: made.map(toFile),
    fileCount: made.length,
    additions: 0,
    deletions: 0,
    patch: { bytes: 0, isCut: false, isRedacted: false },
    handOff: [],
    hadUncommittedChanges: false,
    problems: [],
  }
  const run = aRun({ state: 'succeeded', workspace: { kind: 'upload' } })
  const server = createServer(({ url }, response) => {
    if (url?.endsWith('/workspace'))
      response.writeHead(200, { 'content-type': 'application/x-tar' }).end(workspace)
    else response.end(JSON.stringify(url?.endsWith('/diff') ? diff : run))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: 'key' }
}

/** All names, contents and modes of a folder. */
const stateOf = ({ shell, project }: Place) =>
  shell(
    'find . ! -type d -printf "%p %m %l\\n" | sort; find . -type d | sort; find . -type f -exec cat {} +',
    project,
  )

async function apply(place: Place, made: readonly Made[], more: readonly string[] = []) {
  const env = await startService(made)
  const before = stateOf(place)
  const outcome = await runCli(['apply', RUN_ID, ...more], { env, cwd: place.project })
  return { ...outcome, isUntouched: before === stateOf(place) }
}

function aFolderWith(script: string): Place {
  const place = aPlace()
  place.shell(script)
  return place
}

const CHANGE: Made = { path: 'a.txt', before: 'one\n', after: 'two\n' }

describe('apply', () => {
  test('writes, adds and deletes files, with the executable bit', async () => {
    const place = aFolderWith('echo one >a.txt; echo b >b.txt; echo mine >mine.txt; chmod 600 a.txt')
    const { status, stdout } = await apply(place, [
      CHANGE,
      { path: 'b.txt', before: 'b\n' },
      { path: 'new/run.sh', after: 'true\n', mode: 'executable' },
    ])

    expect([status, stdout]).toEqual([0, 'merged\n'])
    expect(readFileSync(join(place.project, 'a.txt'), 'utf8')).toBe('two\n')
    expect(statSync(join(place.project, 'a.txt')).mode & 0o777).toBe(0o600)
    expect(statSync(join(place.project, 'new', 'run.sh')).mode & 0o111).not.toBe(0)
    expect(existsSync(join(place.project, 'b.txt'))).toBe(false)
    expect(readFileSync(join(place.project, 'mine.txt'), 'utf8')).toBe('mine\n')
  })

  test('a second time changes nothing', async () => {
    const place = aFolderWith('echo two >a.txt')
    const { status, stdout, isUntouched } = await apply(place, [CHANGE])

    expect([status, stdout, isUntouched]).toEqual([0, 'merged\n', true])
  })

  test.each([
    ['a file that the user changed too', 'echo other >a.txt', [CHANGE], 'conflict'],
    ['a file that the user deleted', 'true', [CHANGE], 'conflict'],
    ['a file of the user that became a link', 'ln -s b a.txt; echo one >b', [CHANGE], 'conflict'],
    ['a file with a second name', 'echo one >a.txt; ln a.txt b', [CHANGE], 'conflict'],
    ['a new file where the user has one', 'echo x >new', [{ path: 'new', after: 'y' }], 'overlapping'],
    ['a new file where the user has a folder', 'mkdir new', [{ path: 'new', after: 'y' }], 'overlapping'],
    [
      'a new file behind a link',
      'mkdir real; ln -s real new',
      [{ path: 'new/x', after: 'y' }],
      'overlapping',
    ],
  ] as const)('%s: nothing is changed', async (...[, script, made, expected]) => {
    const place = aFolderWith(script)
    const harmless: Made = { path: 'harmless.txt', after: 'x' }
    const { status, stdout, stderr, isUntouched } = await apply(place, [harmless, ...made])
    const asJson = JSON.parse((await apply(place, [harmless, ...made], ['--json'])).stdout)

    expect([status, stdout, isUntouched]).toEqual([6, `${expected}\n`, true])
    expect(stderr).toContain(made[0].path)
    expect(asJson).toMatchObject({ result: expected, paths: [made[0].path] })
  })

  test('writes hand-off files only when they are asked for', async () => {
    const place = aFolderWith('echo one >a.txt')
    const made: Made[] = [
      CHANGE,
      { path: 'Makefile', after: 'all:' },
      { path: 'sub/PACKAGE.JSON', after: '{}' },
      { path: '.agentweaver/settings.yml', after: 'x' },
      { path: 'sub/.gitignore', after: '!.env' },
    ]
    const without = await apply(place, made)
    const paths = ['Makefile', 'sub/PACKAGE.JSON', '.agentweaver/settings.yml', 'sub/.gitignore']
    const missing = paths.filter((path) => !existsSync(join(place.project, path)))
    const withThem = await apply(place, made, ['--include-handoff'])

    expect([without.status, missing]).toEqual([0, paths])
    for (const path of paths) expect(without.stderr).toContain(path)
    expect(withThem.status).toBe(0)
    expect(paths.filter((path) => !existsSync(join(place.project, path)))).toEqual([])
  })

  test.each([
    '../escaped',
    '/tmp/aw-apply-escaped',
    'a/../../escaped',
    '.git/hooks/pre-commit',
    '.GIT/config',
    'git~1/config',
    '.g\u200cit/config',
    'sub/.git',
    'x.agentweaver-held/../.git/config',
    'a:b',
  ])('refuses the path %j and changes nothing', async (path) => {
    const place = aFolderWith('git init -q; echo one >a.txt')
    const { status, stderr, isUntouched } = await apply(
      place,
      [CHANGE, { path, after: 'x' }],
      ['--include-handoff'],
    )

    expect([status, isUntouched]).toEqual([6, true])
    expect(stderr).toContain('Nothing was changed')
    expect([existsSync(join(place.folder, 'escaped')), existsSync('/tmp/aw-apply-escaped')]).toEqual([
      false,
      false,
    ])
  })

  test('refuses to make a folder a git repository, also together with names of the user', async () => {
    const made: Made[] = [
      { path: 'sub/head', after: 'ref: refs/heads/main\n' },
      { path: 'sub/objects/x', after: 'x' },
    ]
    const alone = await apply(aFolderWith('true'), made)
    const together = await apply(aFolderWith('mkdir -p sub/refs'), made)

    // Without refs, no folder is a repository.
    expect(alone.status).toBe(0)
    expect([together.status, together.isUntouched]).toEqual([6, true])
    expect(together.stderr).toContain('git repository')
  })

  test('writes no links, and says so', async () => {
    const place = aFolderWith('true')
    const { status, stderr } = await apply(place, [{ path: 'link', after: '/etc/passwd', mode: 'link' }])

    expect([status, existsSync(join(place.project, 'link'))]).toEqual([0, false])
    expect(stderr).toContain('links:\n  link')
  })

  test('restores everything if the service sends another content, or a write fails', async () => {
    const place = aFolderWith('echo one >a.txt')
    const lying = await apply(place, [{ ...CHANGE, sent: 'evil\n' }])
    // The second file needs a folder where the first one is a file.
    const failing = await apply(place, [CHANGE, { path: 'f', after: 'x' }, { path: 'f/x', after: 'y' }])

    expect([lying.status, lying.isUntouched]).toEqual([6, true])
    expect([failing.status, failing.isUntouched]).toEqual([6, true])
    for (const { stderr } of [lying, failing]) expect(stderr).toContain('Your files are as they were.')
  })

  test('refuses a folder in a git directory', async () => {
    const place = aFolderWith('git init -q')
    const { status } = await apply(place, [{ path: 'x', after: 'y' }], [join(place.project, '.git', 'hooks')])

    expect([status, existsSync(join(place.project, '.git', 'hooks', 'x'))]).toEqual([2, false])
  })

  test('refuses a link to a folder', async () => {
    const place = aFolderWith('true')
    symlinkSync(place.home, join(place.folder, 'link'))
    writeFileSync(join(place.home, 'x'), '')
    const { status } = await apply(place, [{ path: 'new', after: 'y' }], [join(place.folder, 'link')])

    expect(status).not.toBe(0)
    expect(existsSync(join(place.home, 'new'))).toBe(false)
  })
})
