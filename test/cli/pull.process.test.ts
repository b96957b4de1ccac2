import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type Header, pack } from 'tar-stream'
import { describe, expect, onTestFinished, test } from 'vitest'
import { aPlace } from '../git/repository.ts'
import { aRun, RUN_ID } from './fake-service.ts'
import { aFolder, runCli } from './run-cli.ts'

type Entry = Partial<Header> & Pick<Header, 'name'> & { readonly content?: string }

async function anArchive(entries: readonly Entry[]): Promise<Buffer> {
  const archive = pack()
  for (const { content, ...header } of entries) archive.entry(header, content ?? '')
  archive.finalize()
  return buffer(archive)
}

/** A service whose run has this workspace. */
async function startService(workspace: Uint8Array, cutAt?: number) {
  const run = JSON.stringify(aRun({ state: 'succeeded', workspace: { kind: 'upload' } }))
  const server = createServer(({ url }, response) => {
    if (url === `/api/runs/${RUN_ID}/workspace`) {
      response.writeHead(200, { 'content-type': 'application/x-tar' })
      if (cutAt === undefined) response.end(workspace)
      else response.write(workspace.subarray(0, cutAt), () => response.destroy())
    } else if (url === `/api/runs/${RUN_ID}`) response.end(run)
    else response.writeHead(404).end('{}')
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { AGENTWEAVER_URL: url, AGENTWEAVER_API_KEY: 'key' }
}

async function pull(entries: readonly Entry[]) {
  const env = await startService(await anArchive(entries))
  const cwd = await aFolder('aw-pull-')
  const outcome = await runCli(['pull', RUN_ID, 'out'], { env, cwd })
  return { ...outcome, cwd, out: join(cwd, 'out') }
}

const A_FILE: Entry = { name: 'a.txt', mode: 0o644, content: 'one\n' }

describe('pull', () => {
  test('writes files, folders, links inside, and executable bits into a new folder', async () => {
    const { status, stdout, out } = await pull([
      A_FILE,
      { name: 'src/', type: 'directory', mode: 0o755 },
      { name: 'src/run.sh', mode: 0o6755, content: 'true\n' },
      { name: 'src/link', type: 'symlink', linkname: '../a.txt' },
    ])

    expect([status, stdout]).toEqual([0, `${out}\n`])
    expect(readFileSync(join(out, 'src', 'link'), 'utf8')).toBe('one\n')
    expect(lstatSync(join(out, 'src', 'run.sh')).mode & 0o7777).toBe(0o755)
  })

  test.each<[string, Entry]>([
    ['an absolute path', { name: '/tmp/aw-pull-escaped', content: 'x' }],
    ['a path with ..', { name: '../aw-pull-escaped', content: 'x' }],
    ['a link that leads out', { name: 'link', type: 'symlink', linkname: '../../etc/passwd' }],
    ['an absolute link', { name: 'link', type: 'symlink', linkname: '/etc/passwd' }],
    ['a device', { name: 'device', type: 'character-device' }],
    ['a file twice', { ...A_FILE, content: 'two\n' }],
    ['a hard link to a file outside', { name: 'hard', type: 'link', linkname: '../../etc/passwd' }],
  ])('rejects an archive with %s and writes nothing', async (_name, entry) => {
    const { status, stderr, cwd } = await pull([A_FILE, entry])

    expect(status).toBe(6)
    expect(stderr).toContain('Nothing was written.')
    expect(readdirSync(cwd)).toEqual([])
    expect(existsSync('/tmp/aw-pull-escaped')).toBe(false)
  })

  test('does not write through a link that the archive has first', async () => {
    const { status, cwd } = await pull([
      { name: 'inside/', type: 'directory' },
      { name: 'link', type: 'symlink', linkname: 'inside' },
      { name: 'link/a.txt', content: 'x' },
    ])

    expect(status).toBe(6)
    expect(readdirSync(cwd)).toEqual([])
  })

  test.each(['.git', '.GIT', '.g\u200cit', 'git~1', '.git.', '.git ', 'sub/.git', '.git:stream'])(
    'leaves out %j, with what is below it',
    async (name) => {
      const { status, stderr, out } = await pull([
        A_FILE,
        { name: `${name}/config`, content: '[core]\n' },
        { name: 'to-git', type: 'symlink', linkname: `${name}/config` },
      ])

      expect(status).toBe(0)
      expect(readdirSync(out, { recursive: true })).toEqual(['a.txt'])
      expect(stderr).toContain('Left out, because git would obey it:')
    },
  )

  test('names a folder that is left out once', async () => {
    const { stderr } = await pull([
      A_FILE,
      { name: '.git/', type: 'directory' },
      { name: '.git/config', content: '[core]\n' },
    ])

    expect(stderr).toMatch(/Left out, because git would obey it:\n {2}\.git\n(?! )/)
  })

  test('a bare repository in the result runs nothing at the next git command', async () => {
    const place = aPlace()
    const marker = join(place.folder, 'ran')
    const evil: Entry[] = [
      { name: 'bare/HEAD', content: 'ref: refs/heads/main\n' },
      { name: 'bare/objects/', type: 'directory' },
      { name: 'bare/refs/', type: 'directory' },
      {
        name: 'bare/config',
        content: `[core]\n\tbare = true\n\tsshCommand = "touch ${marker};"\n[remote "origin"]\n\turl = ssh://host/path\n`,
      },
    ]
    const { status, stderr, out } = await pull([A_FILE, ...evil])

    expect(status).toBe(0)
    expect(stderr).toContain('bare/HEAD')
    place.attempt('git fetch', join(out, 'bare'))
    expect(existsSync(marker)).toBe(false)
    place.shell('mv HEAD.agentweaver-held HEAD', join(out, 'bare'))
    place.attempt('git fetch', join(out, 'bare'))
    // With its HEAD, the folder is a repository whose configuration git obeys.
    expect(existsSync(marker)).toBe(true)
  })

  test.each([
    [
      'a folder with files',
      (cwd: string) => mkdirSync(join(cwd, 'out', 'x'), { recursive: true }),
      'not an empty folder',
    ],
    ['a file', (cwd: string) => writeFileSync(join(cwd, 'out'), ''), 'not an empty folder'],
  ])('%s is refused as the target', async (_name, make, expected) => {
    const env = await startService(await anArchive([A_FILE]))
    const cwd = await aFolder('aw-pull-')
    make(cwd)

    const { status, stderr } = await runCli(['pull', RUN_ID, 'out'], { env, cwd })

    expect([status, stderr]).toEqual([2, expect.stringContaining(expected)])
  })

  test('a download that breaks off leaves nothing', async () => {
    const archive = await anArchive([A_FILE, { name: 'b.txt', content: 'x'.repeat(100_000) }])
    const env = await startService(archive, 3000)
    const cwd = await aFolder('aw-pull-')

    const { status } = await runCli(['pull', RUN_ID, 'out'], { env, cwd })

    expect(status).not.toBe(0)
    expect(readdirSync(cwd)).toEqual([])
  })
})
