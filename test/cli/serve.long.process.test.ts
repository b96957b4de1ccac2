import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../helpers/until.ts'

const MAIN = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))

/** A killed process that nothing has waited for yet is still listed. */
const lives = (pid: number): boolean =>
  existsSync(`/proc/${pid}/stat`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))

it('stops the service when the command is killed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-serve-'))
  const env = {
    ...process.env,
    AGENTWEAVER_STATE_DIR: join(folder, 'state'),
    AGENTWEAVER_PORT: '0',
    HOME: folder,
  }
  const command = spawn(process.execPath, [MAIN, 'serve', '--json'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let service = 0
  onTestFinished(() => {
    command.kill('SIGKILL')
    if (service > 0 && lives(service)) process.kill(service, 'SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  const [line] = (await once(createInterface({ input: command.stdout }), 'line')) as [string]
  service = (JSON.parse(line) as { pid: number }).pid
  expect(service).not.toBe(command.pid)
  expect(lives(service)).toBe(true)

  command.kill('SIGKILL')
  await once(command, 'exit')

  await until('the service has ended', () => !lives(service), 120_000)
})
