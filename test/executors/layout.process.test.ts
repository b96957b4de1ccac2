import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { directBackend } from '../../runtime/executors/direct.ts'
import type { Executor, Layout } from '../../runtime/executors/executor.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { temporaryFolder } from '../conformance/executor-cases/site.ts'
import { execute } from '../conformance/executor-cases/subject.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'

describe.each(ISOLATING_BACKENDS)('a layout under $name', (backend) => {
  let folder: string
  let workspace: string
  let executor: Executor | undefined

  beforeEach(async () => {
    folder = await temporaryFolder()
    workspace = join(folder, 'project')
    await mkdir(join(workspace, '.git'), { recursive: true })
    await writeFile(join(workspace, '.git', 'config'), 'the real one')
    await mkdir(join(folder, 'private'))
    await writeFile(join(folder, 'private', 'config'), 'the private one')
  })
  afterEach(async () => {
    await executor?.close()
    await rm(folder, { recursive: true })
  })

  const open = async (layout: Partial<Layout>) => {
    const whole = { mounts: [], readOnly: [], environment: {}, ...layout }
    executor = await backend.create({ workspace, toolRoots: [], layout: whole, log: silentLog })
    return executor
  }
  const overGit = (path = '.git', writable = true) => ({
    source: join(folder, 'private'),
    target: `/workspace/${path}`,
    writable,
  })

  it('mounts another folder over a path of the workspace, which commands cannot move', async () => {
    const made = await open({ mounts: [overGit()] })

    const { stdout, stderr } = await execute(made, 'cat .git/config; echo planted >.git/new; mv .git .g')

    expect(stdout).toBe('the private one')
    expect(stderr).toMatch(/busy/)
    expect(readFileSync(join(folder, 'private', 'new'), 'utf8')).toBe('planted\n')
    expect(existsSync(join(workspace, '.git', 'new'))).toBe(false)
    expect(readFileSync(join(workspace, '.git', 'config'), 'utf8')).toBe('the real one')
  })

  it('keeps the folders above a mounted path in place', async () => {
    await mkdir(join(workspace, 'libs', 'one', '.git'), { recursive: true })
    const made = await open({ mounts: [overGit('libs/one/.git')], readOnly: ['libs/one/kept'] })

    const { stdout, stderr } = await execute(made, 'cat libs/one/.git/config; mv libs other; mv libs/one x')

    expect(stdout).toBe('the private one')
    expect(stderr.match(/busy/g)).toHaveLength(2)
  })

  it('mounts a file over a file, and read-only folders below /run', async () => {
    await rm(join(workspace, '.git'), { recursive: true })
    await writeFile(join(workspace, '.git'), 'gitdir: elsewhere')
    await writeFile(join(folder, 'gitfile'), 'gitdir: /run/git')
    const made = await open({
      mounts: [
        { source: join(folder, 'gitfile'), target: '/workspace/.git', writable: false },
        { source: join(folder, 'private'), target: '/run/git', writable: true },
        { source: join(folder, 'private'), target: '/run/objects', writable: false },
      ],
    })

    const { stdout } = await execute(
      made,
      'cat .git; echo; echo a >/run/git/a && echo may; echo b >/run/objects/b || echo may not; echo >.git',
    )

    expect(stdout).toBe('gitdir: /run/git\nmay\nmay not\n')
    expect(readFileSync(join(folder, 'gitfile'), 'utf8')).toBe('gitdir: /run/git')
  })

  it('makes paths read-only, and sets environment variables', async () => {
    await writeFile(join(workspace, 'hook'), 'mine')
    const made = await open({ readOnly: ['hook'], environment: { GIT_CONFIG_COUNT: '1' } })

    const { stdout } = await execute(
      made,
      'echo x >hook; rm -f hook; mv hook y; cat hook; echo " $GIT_CONFIG_COUNT"',
    )

    expect(stdout).toBe('mine 1\n')
  })

  it('does not start a command if the path, or a folder above it, became a link', async () => {
    await mkdir(join(workspace, 'libs', '.git'), { recursive: true })
    const made = await open({ mounts: [overGit(), overGit('libs/.git')] })
    await rename(join(workspace, 'libs'), join(workspace, 'real'))
    await symlink('real', join(workspace, 'libs'))
    const above = await execute(made, 'echo ran')
    await rm(join(workspace, 'libs'))
    await rename(join(workspace, 'real'), join(workspace, 'libs'))
    await rename(join(workspace, '.git'), join(workspace, 'real'))
    await symlink('real', join(workspace, '.git'))

    const itself = await execute(made, 'echo ran')

    expect(above).toMatchObject({ reason: 'spawn_failed', stdout: '' })
    expect(itself).toMatchObject({ reason: 'spawn_failed', stdout: '' })
    expect(lstatSync(join(workspace, '.git')).isSymbolicLink()).toBe(true)
  })

  it('redirects git to the private folder and leaves the real one unchanged', async () => {
    await rm(join(workspace, '.git'), { recursive: true })
    execFileSync('git', ['init', '-q', workspace])
    execFileSync('git', ['init', '-q', '--bare', join(folder, 'bare')])
    const before = readFileSync(join(workspace, '.git', 'config'), 'utf8')
    const made = await open({ mounts: [{ ...overGit(), source: join(folder, 'bare') }] })

    const { exitCode } = await execute(made, 'git config core.bare false; git config core.fsmonitor ./evil')

    expect(exitCode).toBe(0)
    expect(readFileSync(join(workspace, '.git', 'config'), 'utf8')).toBe(before)
    expect(readFileSync(join(folder, 'bare', 'config'), 'utf8')).toContain('./evil')
  })
})

it('is rejected if the backend cannot mount', async () => {
  const workspace = await temporaryFolder()
  const layout = { mounts: [], readOnly: ['hook'], environment: {} }
  const executor = await directBackend.create({ workspace, toolRoots: [], layout, log: silentLog })

  const result = await execute(executor, 'echo ran')

  await executor.close()
  await rm(workspace, { recursive: true })
  expect(result).toMatchObject({ reason: 'spawn_failed', stdout: '' })
})
