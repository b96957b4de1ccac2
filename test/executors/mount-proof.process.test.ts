import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ExecRequest } from '../../contracts/exec.ts'
import { namespacesBackend } from '../../runtime/executors/namespaces.ts'
import { supervisorScript } from '../../runtime/executors/process/command-supervisor.ts'
import { expectedMounts, mountProblem, OTHER_FOLDER } from '../../runtime/executors/process/mount-proof.ts'
import { onlyChildOf } from '../../runtime/executors/process/process-tree.ts'
import { type Launch, supervise } from '../../runtime/executors/process/supervise.ts'
import { holdPath, pathIdentity } from '../../runtime/executors/rootfs/host-paths.ts'
import { bindReadOnly, bindWritable, hiddenFile } from '../../runtime/executors/rootfs/mounts.ts'
import { temporaryFolder } from '../conformance/executor-cases/site.ts'

const SECRET = 'the-secret-words'
const detection = await namespacesBackend.detect({ toolRoots: [] })

async function run(launch: Launch) {
  let output = ''
  const onChunk = (_stream: string, chunk: Uint8Array) => {
    output += String(chunk)
  }
  const request = ExecRequest.parse({ command: 'true', timeoutMs: 120_000 })
  return { ...(await supervise(launch, request, { onChunk })), output }
}

describe('mount verification', () => {
  let above: string

  beforeEach(async () => {
    above = await temporaryFolder()
  })
  afterEach(() => rm(above, { recursive: true }))

  const supervised = (workspace: string, command: string): Launch => ({
    file: '/bin/sh',
    args: ['-c', supervisorScript(), 'sh', workspace, '.', command],
    env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin' },
    hasPidNamespace: false,
  })

  it('checks the identity of mounts made by path, and mounts below the workspace', () => {
    expect(
      expectedMounts([
        bindReadOnly('/usr'),
        bindReadOnly('/srv/a', '/srv/a', '1:2'),
        bindWritable('/home/x', '/workspace', '1:3'),
        bindWritable('/home/x/kept', '/workspace/kept', '1:4'),
        hiddenFile('/workspace/kept/file'),
        hiddenFile('/proc/keys'),
      ]),
    ).toEqual([
      { target: '/srv/a', identity: '1:2', isMountPoint: false },
      { target: '/workspace', identity: '1:3', isMountPoint: false },
      { target: '/workspace/kept', identity: '1:4', isMountPoint: true },
      { target: '/workspace/kept/file', identity: undefined, isMountPoint: true },
    ])
  })

  it('fails if the process does not exist, or shows nothing at the path', () => {
    const expected = [{ target: '/workspace', identity: pathIdentity(above), isMountPoint: false }]

    expect(mountProblem(undefined, expected)).toMatch(/^the workspace cannot be seen in the sandbox/)
    expect(mountProblem(process.pid, expected)).toMatch(/^the workspace cannot be seen in the sandbox/)
  })

  it('fails if another folder is shown', () => {
    const problemAt = (target: string) =>
      mountProblem(process.pid, [{ target, identity: pathIdentity('/'), isMountPoint: false }])

    expect(problemAt(above)).toContain(`${above} was replaced by another process`)
    expect(OTHER_FOLDER).toContain('workspace')
    expect(problemAt('/')).toBeUndefined()
  })

  it('fails if a mount is missing', () => {
    const problemAt = (target: string) => mountProblem(process.pid, [{ target, isMountPoint: true }])

    expect(problemAt(above)).toContain(`${above} was replaced by another process`)
    expect(problemAt('/proc')).toBeUndefined()
    expect(mountProblem(undefined, [{ target: '/proc', isMountPoint: true }])).toContain('cannot be seen')
  })

  it('stops a command whose sandbox cannot be checked, and releases the held files', async () => {
    let released = 0
    const result = await run({
      ...supervised(above, 'echo ran'),
      expected: [{ target: '/workspace', identity: '1:2', isMountPoint: false }],
      release: () => released++,
    })

    expect(result).toMatchObject({ reason: 'spawn_failed', exitCode: null, output: '' })
    expect(released).toBe(1)
  })

  it('releases the held files before the command starts, also if it never starts', async () => {
    let released = 0
    const launch = { ...supervised(above, 'echo ran'), release: () => released++ }

    expect(await run(launch)).toMatchObject({ exitCode: 0, output: 'ran\n' })
    expect(released).toBe(1)

    await supervise(launch, ExecRequest.parse({ command: 'true' }), {
      onChunk: () => undefined,
      signal: AbortSignal.abort(),
    })
    expect(released).toBe(2)
  })

  it.skipIf(!detection.ok)(
    'does not start a command if a folder was replaced between check and mount',
    async () => {
      const [place, target] = [join(above, 'place'), join(above, 'target')]
      await Promise.all([mkdir(place), mkdir(target), mkdir(join(above, 'secret'))])
      await writeFile(join(above, 'secret/data'), SECRET)
      const held = holdPath(place)
      const mount = bindReadOnly(held.real, target, held.identity)

      // Moves the checked folder away and puts a link in its place.
      await rename(place, join(above, 'elsewhere'))
      await symlink(join(above, 'secret'), place)
      const bind = `mount --bind ${place} ${target} && exec "$@"`
      const { args, ...rest } = supervised(above, 'cat target/data')
      const launch: Launch = {
        ...rest,
        file: '/usr/bin/unshare',
        args: ['-Urm', '--pid', '--fork', '--kill-child', '/bin/sh', '-c', bind, 'sh', '/bin/sh', ...args],
        hasPidNamespace: true,
        release: held.release,
      }
      const unproven = await run({ ...launch, release: () => undefined })
      const proven = await run({ ...launch, expected: expectedMounts([mount]) })

      expect(unproven).toMatchObject({ exitCode: 0, output: SECRET })
      expect(proven).toMatchObject({ reason: 'spawn_failed', output: '' })
      expect(proven.message).toContain(`${target} was replaced by another process after it was checked`)
    },
  )

  it('keeps the inode number of an open file from being reused', async () => {
    const place = join(above, 'place')
    await mkdir(place)
    const held = holdPath(place)
    await rm(place, { recursive: true })

    const made = await Promise.all(
      Array.from({ length: 50 }, async (_, index) => {
        await mkdir(join(above, String(index)))
        return pathIdentity(join(above, String(index)))
      }),
    )
    held.release()

    expect(made).not.toContain(held.identity)
  })
})

describe('the first process of a sandbox', () => {
  it('is found on kernels that do not list children', async () => {
    const launcher = spawn('/bin/sh', ['-c', 'sleep 60 & echo $!; wait'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const [line] = await once(launcher.stdout, 'data')
    const child = Number(String(line))

    expect(onlyChildOf(launcher.pid as number, false)).toBe(child)
    expect(onlyChildOf(launcher.pid as number)).toBe(child)
    expect(onlyChildOf(child, false)).toBeUndefined()

    process.kill(child)
    await once(launcher, 'exit')
  })
})
