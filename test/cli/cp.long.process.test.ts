import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../helpers/until.ts'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, untilQuiet } from './run-cli.ts'

let folder: string
let service: OwnService
let id: string
let env: Record<string, string>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-cp-test-'))
  service = await startOwnService(folder, { AGENTWEAVER_WORKSPACE_ROOTS: folder })
  env = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey }
  id = (await runCli(['sandbox', 'create'], { env })).stdout.trim()
})

afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true })
})

const here = () => mkdtemp(join(folder, 'here-'))
const inSandbox = async (command: string) => {
  const answer = await service.client.execCommand(id, { command, timeoutMs: 120_000 })
  expect(answer.exitCode, answer.stderr).toBe(0)
  return answer.stdout
}

describe('agentweaver cp', () => {
  test('copies a file out, under its name, under a new name, and again over the old one', async () => {
    const cwd = await here()
    await inSandbox(
      'mkdir -p dist && printf one > dist/a.txt && printf "#!/bin/sh" > dist/tool && chmod 4755 dist/tool || chmod 755 dist/tool',
    )

    const first = await runCli(['cp', `${id}:dist/a.txt`, '.'], { env, cwd })
    const renamed = await runCli(['cp', `${id}:dist/a.txt`, 'new/b.txt', '--json'], { env, cwd })
    await inSandbox('printf two > dist/a.txt')
    const again = await runCli(['cp', `${id}:dist/a.txt`, 'a.txt'], { env, cwd })
    const tool = await runCli(['cp', `${id}:dist/tool`, 'tool'], { env, cwd })

    expect(first).toMatchObject({ status: 0, stdout: '1 file, 3 bytes\n', stderr: '' })
    expect(JSON.parse(renamed.stdout)).toEqual({
      from: `${id}:dist/a.txt`,
      to: 'new/b.txt',
      files: 1,
      bytes: 3,
      skipped: [],
      handOff: [],
    })
    expect([again.status, tool.status]).toEqual([0, 0])
    expect(await readFile(join(cwd, 'a.txt'), 'utf8')).toBe('two')
    expect(await readFile(join(cwd, 'new/b.txt'), 'utf8')).toBe('one')
    expect((await stat(join(cwd, 'tool'))).mode & 0o7100).toBe(0o100)
    expect((await readdir(cwd)).sort()).toEqual(['a.txt', 'new', 'tool'])
  })

  test('copies a folder out and in, and names the entries that were left out', async () => {
    const cwd = await here()
    await inSandbox(
      'mkdir -p tree/empty tree/.git tree/sub && echo x > tree/.git/config && echo y > tree/sub/y && ln -s /etc/passwd tree/link && mkfifo tree/pipe && echo ref > tree/HEAD && echo "{}" > tree/package.json',
    )

    const out = await runCli(['cp', `${id}:tree`, '.'], { env, cwd })
    const back = await runCli(['cp', 'tree', `${id}:copies/again`, '--json'], { env, cwd })
    const into = await runCli(['cp', 'tree', `${id}:copies`], { env, cwd })
    const whole = await runCli(['cp', `${id}:copies`, 'whole'], { env, cwd })

    expect(out.stdout).toBe('2 files, 5 bytes\n')
    expect(out.stderr).toContain('package.json  packages')
    expect(out.stderr).toMatch(/tree\/\.git: git's own files are not copied/)
    expect(out.stderr).toMatch(/tree\/link: it is a symbolic link/)
    expect(out.stderr).toMatch(/tree\/pipe: it is neither a file nor a folder/)
    expect(out.stderr).toMatch(/tree\/HEAD: a file of this name/)
    expect((await readdir(join(cwd, 'tree'), { recursive: true })).sort()).toEqual([
      'empty',
      'package.json',
      'sub',
      'sub/y',
    ])
    expect(JSON.parse(back.stdout)).toMatchObject({ files: 2, skipped: [] })
    expect(into.status).toBe(0)
    expect(whole.status).toBe(0)
    expect((await inSandbox('find copies -type f | sort')).trim().split('\n')).toEqual([
      'copies/again/package.json',
      'copies/again/sub/y',
      'copies/tree/package.json',
      'copies/tree/sub/y',
    ])
  })

  test('keeps every byte of a large file, and the executable bit of one that is sent', async () => {
    const cwd = await here()
    const digest = (await inSandbox('head -c 20000000 /dev/urandom > big && sha256sum < big')).trim()
    await writeFile(join(cwd, 'run.sh'), 'exit 0\n')
    await chmod(join(cwd, 'run.sh'), 0o755)
    await writeFile(join(cwd, 'too-big'), Buffer.alloc(16_777_217))

    const big = await runCli(['cp', `${id}:big`, 'big'], { env, cwd })
    const script = await runCli(['cp', 'run.sh', `${id}:bin/`], { env, cwd })
    const refused = await runCli(['cp', 'too-big', `${id}:`], { env, cwd })

    expect(big.status).toBe(0)
    const own = createHash('sha256')
      .update(await readFile(join(cwd, 'big')))
      .digest('hex')
    expect(`${own}  -`).toBe(digest)
    expect(script.status).toBe(0)
    await inSandbox('bin/run.sh')
    expect(refused.status).toBe(2)
    expect(refused.stderr).toContain('A file that is copied into a run may have 16.0 MiB')
  })

  test('never follows a link on this machine, neither for reading nor for writing', async () => {
    const cwd = await here()
    const outside = await here()
    await writeFile(join(outside, 'secret'), 'secret')
    await mkdir(join(cwd, 'folder'))
    await symlink(join(outside, 'secret'), join(cwd, 'planted'))
    await symlink(outside, join(cwd, 'folder/planted'))
    await writeFile(join(cwd, 'folder/plain'), 'plain')
    await inSandbox(
      'mkdir -p evil/planted && echo evil > evil/planted/secret && echo evil > evil/plain && rm -rf received',
    )

    const over = await runCli(['cp', `${id}:evil/plain`, 'planted'], { env, cwd })
    const through = await runCli(['cp', `${id}:evil/plain`, 'folder/planted/secret'], { env, cwd })
    const merged = await runCli(['cp', `${id}:evil/planted`, 'folder'], { env, cwd })
    const named = await runCli(['cp', 'planted', `${id}:received/named`], { env, cwd })
    const sent = await runCli(['cp', 'folder', `${id}:received/folder`], { env, cwd })
    const control = await runCli(['cp', `${id}:evil/plain`, 'folder/plain'], { env, cwd })

    expect([over.status, through.status, merged.status, named.status]).toEqual([2, 2, 6, 2])
    for (const { stderr } of [over, through, merged, named]) expect(stderr).toContain('symbolic link')
    expect(sent.stderr).toContain('folder/planted: it is a symbolic link')
    expect((await inSandbox('find received -type f')).trim()).toBe('received/folder/plain')
    expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('secret')
    expect(await readdir(outside)).toEqual(['secret'])
    expect(control.status).toBe(0)
    expect(await readFile(join(cwd, 'folder/plain'), 'utf8')).toBe('evil\n')
  })

  test('a file that is written over HTTP gets its mode, and an exclusive one replaces nothing', async () => {
    const { client } = service
    const content = Buffer.from('first')

    await client.writeFile(id, { path: 'written', content, create: 'exclusive', mode: '750' })
    const write = (more: object) => client.writeFile(id, { path: 'absent', content, ...more })

    await expect(write({ path: 'written', create: 'exclusive' })).rejects.toMatchObject({ code: 'conflict' })
    await expect(write({ create: 'never' })).rejects.toMatchObject({ code: 'not_found' })
    await expect(write({ mode: '4755' })).rejects.toMatchObject({ code: 'invalid_request' })
    expect((await inSandbox('stat -c %a written; cat written')).trim()).toBe('750\nfirst')
  })

  test.each([
    [['cp', 'a', 'b'], 2, 'Which run?'],
    [['cp', 'ID:a', 'ID:b'], 2, 'One of the two must be on this machine'],
    [['cp', 'ID:../a', '.'], 2, 'must not contain ".."'],
    [['cp', 'ID:/etc/passwd', '.'], 2, 'relative to its workspace'],
    [['cp', 'ID:absent', '.'], 3, 'There is no absent in the workspace'],
    [['cp', 'absent', 'ID:x'], 2, 'absent does not exist'],
    [['cp', `run_${'0'.repeat(32)}:a`, '.'], 3, 'There is no run'],
    [['cp', 'sbx_nope:a', '.'], 2, 'This is not an id'],
  ])('refuses %j', async (words, status, message) => {
    const cwd = await here()

    const refused = await runCli(
      words.map((word) => word.replace('ID', id)),
      { env, cwd },
    )

    expect(refused.stderr).toContain(message)
    expect(refused.status).toBe(status)
    expect(await readdir(cwd)).toEqual([])
  })

  test('works for a run with an agent, and names the alternatives when it has ended', async () => {
    const cwd = await here()
    const plan = join(cwd, 'plan.json')
    const turns = [
      [{ kind: 'tool', tool: 'create', arguments: { path: 'made', file_text: 'by the agent' } }],
      [],
    ]
    await writeFile(plan, JSON.stringify({ turns }))
    const started = await runCli(
      ['run', 'x', '--empty-workspace', '--plan', plan, '--interactive', '--detach'],
      { env },
    )
    const run = started.stdout.trim()

    await until('the run waits', async () => (await service.client.readRun(run)).state === 'waiting')
    const out = await runCli(['cp', `${run}:made`, 'made'], { env, cwd })
    const sent = await runCli(['cp', 'made', `${run}:back`], { env, cwd })
    await service.client.cancel(run)
    const late = await runCli(['cp', `${run}:made`, 'late'], { env, cwd })

    expect([out.status, sent.status]).toEqual([0, 0])
    expect(await readFile(join(cwd, 'made'), 'utf8')).toBe('by the agent')
    expect(late.status).toBe(6)
    expect(late.stderr).toContain(`agentweaver pull ${run}`)
  })
})
