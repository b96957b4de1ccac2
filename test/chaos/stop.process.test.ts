import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { COMPILE_CACHE } from '../helpers/compile-cache.ts'
import { until } from '../helpers/until.ts'
import { processesOf } from './world/processes.ts'

const MAIN = join(import.meta.dirname, 'main.ts')

it('leaves no process, mount or folder when it is stopped', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-stop-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const child = spawn(process.execPath, [MAIN, '--backend', 'sqlite', '--runs', '10', '--no-faults'], {
    env: { ...process.env, ...COMPILE_CACHE, TMPDIR: folder },
    stdio: 'ignore',
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const started = () => processesOf(basename(folder)).filter(({ pid }) => pid !== child.pid)
  await until('a sandbox runs', () => started().some(({ command }) => command.includes('agent-host.js')))

  child.kill('SIGTERM')
  const [code] = await ended

  expect(code).toBe(143)
  await until('every process has ended', () => started().length === 0)
  expect(readFileSync('/proc/self/mounts', 'utf8')).not.toContain(folder)
  expect(readdirSync(folder)).toEqual([])
})
