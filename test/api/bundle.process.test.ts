import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { bundleApi } from '../../tools/bundle.ts'

const folder = mkdtempSync(join(tmpdir(), 'aw-api-bundle-'))
let entry = ''
beforeAll(async () => {
  entry = await bundleApi(folder)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

it('listens when run from its bundle, without node_modules', async () => {
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
  }

  expect(said).toContain('listens on http://127.0.0.1:')
})

it('includes the database setup program, which lists every mistake in its settings', () => {
  const setup = (env: Record<string, string>) =>
    spawnSync(process.execPath, [join(folder, 'api/database-setup.mjs')], {
      cwd: folder,
      encoding: 'utf8',
      timeout: 150_000,
      env: { PATH: process.env['PATH'], ...env },
    })
  const settings = {
    DATABASE_URL: 'postgresql://setup@127.0.0.1:1/postgres?sslmode=verify-full',
    AGENTWEAVER_DATABASE_NAME: 'agentweaver',
    AGENTWEAVER_DATABASE_ROLE: 'agentweaver-api',
    AGENTWEAVER_DATABASE_ROLE_OBJECT_ID: '84bbc060-66ed-4d84-818d-48e59d1e715f',
    AZURE_AUTHORITY_HOST: 'https://login.microsoftonline.com/',
    AZURE_CLIENT_ID: '84bbc060-66ed-4d84-818d-48e59d1e715f',
    AZURE_FEDERATED_TOKEN_FILE: '/var/run/secrets/azure/tokens/azure-identity-token',
    AZURE_TENANT_ID: 'e9da86d3-51cf-4a76-82d8-c50195c3f466',
  }

  const wrong = setup({
    ...settings,
    AGENTWEAVER_DATABASE_ROLE: 'api"; drop',
    AGENTWEAVER_DATABASE_TYPO: 'x',
  })
  const clear = setup({ ...settings, DATABASE_URL: 'postgresql://setup@db/postgres' })
  const nowhere = setup(settings)

  expect(wrong).toMatchObject({ status: 78 })
  expect(wrong.stderr).toMatch(
    /AGENTWEAVER_DATABASE_ROLE: must be[\s\S]*AGENTWEAVER_DATABASE_TYPO: is not a known key/,
  )
  expect(clear).toMatchObject({ status: 78 })
  expect(clear.stderr).toContain('sslmode=verify-full')
  expect(nowhere).toMatchObject({ status: 1 })
  expect(nowhere.stderr).toContain('connecting to the database "postgres" at 127.0.0.1 failed')
})
