import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { leftBehind, processesOf } from '../../cli/demo/left-behind.ts'

const aFolder = () => mkdtemp(join(tmpdir(), 'aw-left-test-'))

test.each([
  ['works in the folder', (folder: string) => spawn('sleep', ['60'], { cwd: folder })],
  ['has it in its arguments', (folder: string) => spawn('sh', ['-c', 'read -r _; :', folder])],
  ['has it in its environment', (folder: string) => spawn('sleep', ['60'], { env: { X: folder } })],
])('finds a process that %s', async (_how, start) => {
  const folder = await aFolder()
  const child = start(folder)
  await once(child, 'spawn')

  const found = await processesOf(folder)

  expect(found).toContain(child.pid)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await rm(folder, { recursive: true })
  expect(await leftBehind(folder)).toEqual([])
})

test('names a folder that still exists', async () => {
  const folder = await aFolder()

  expect(await leftBehind(folder, 100)).toEqual([`the folder ${folder}`])
  await rm(folder, { recursive: true })
})
