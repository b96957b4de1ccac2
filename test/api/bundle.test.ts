import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { bundleApi } from '../../scripts/bundle.ts'

it('listens from its bundle, with no package beside it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-api-bundle-'))
  const entry = await bundleApi(folder)
  const child = spawn(process.execPath, [entry], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOME: folder, AGENTWEAVER_PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 150_000,
    killSignal: 'SIGKILL',
  })
  let said = ''
  try {
    await new Promise<void>((resolve) => {
      const note = (text: string) => {
        said += text
        if (said.includes('listens on')) resolve()
      }
      child.stdout.setEncoding('utf8').on('data', note)
      child.stderr.setEncoding('utf8').on('data', note)
      child.once('exit', () => resolve())
    })
  } finally {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }

  expect(said).toContain('listens on http://127.0.0.1:')
})
