import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../helpers/until.ts'
import { descendantsOf, processesOf } from './processes.ts'

const hasBubblewrap = spawnSync('bwrap', ['--version']).status === 0

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'aw-chaos-test-'))
  mkdirSync(join(folder, 'workspace'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function running(child: ChildProcess): ChildProcess {
  onTestFinished(async () => {
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  })
  return child
}

const FOREVER = ['-c', 'sleep 300; true']

it.each<[string, (folder: string) => ChildProcess]>([
  ['in its working folder', (cwd) => spawn('sh', FOREVER, { cwd })],
  [
    'in its environment',
    (folder) => spawn('sh', FOREVER, { env: { PATH: process.env['PATH'], HOME: folder } }),
  ],
  ['in its command line', (folder) => spawn('sh', [...FOREVER, folder])],
])('finds a process that names the folder %s', async (_, start) => {
  const folder = aFolder()
  const { pid = 0 } = running(start(folder))

  await until('it is found', () => processesOf(basename(folder)).some((found) => found.pid === pid))
  expect(processesOf(`${basename(folder)}x`)).toEqual([])
})

it.skipIf(!hasBubblewrap)(
  'finds a command in a sandbox, which sees the folder under another name',
  async () => {
    const folder = aFolder()
    const mounts = ['--ro-bind', '/', '/', '--bind', join(folder, 'workspace'), '/mnt', '--chdir', '/mnt']
    const child = running(
      spawn('bwrap', [...mounts, '--die-with-parent', '--clearenv', '/bin/sh', ...FOREVER]),
    )

    await until('the command runs', () => descendantsOf([child.pid ?? 0]).length > 0)
    const inside = descendantsOf([child.pid ?? 0]).map(({ pid }) => pid)

    expect(processesOf(basename(folder)).map(({ pid }) => pid)).toEqual(expect.arrayContaining(inside))
  },
)
