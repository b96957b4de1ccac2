import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { loadCredentials } from '../../runtime/api/credentials/credentials.ts'
import { startCompanyProxy } from '../fakes/company-proxy.ts'
import { type AskedToken, answerForApp } from '../fakes/github-app.ts'

const TOKEN = 'ghs_tokenOfAnInstallation000000000000000'

/** A server with GitHub's API for installation tokens, and a list of credentials that uses it. */
async function gitHub(status = 201) {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const asked: AskedToken[] = []
  const server = createServer(async (request, response) => {
    asked.push(await answerForApp(request, response, { publicKey, token: TOKEN, status }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const folder = mkdtempSync(join(tmpdir(), 'aw-github-app-'))
  onTestFinished(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  writeFileSync(join(folder, 'app.pem'), pem, { mode: 0o600 })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const entry = `{ id: github, githubApp: { appId: 7, installationId: 42, repository: octo/app, keyFile: app.pem, apiUrl: '${url}' } }`
  const file = join(folder, 'credentials.yaml')
  writeFileSync(file, `apiVersion: agentweaver.io/v1\nkind: Credentials\ncredentials: [${entry}]\n`)
  return { asked, file }
}

it('creates a token for one repository with the key of the app', async () => {
  const { asked, file } = await gitHub()
  const credentials = await loadCredentials(file)

  expect(await credentials.read('github')).toBe(TOKEN)
  expect(asked).toEqual([
    {
      url: 'POST /app/installations/42/access_tokens',
      body: { repositories: ['app'], permissions: { contents: 'write', pull_requests: 'write' } },
      isSigned: true,
      issuer: '7',
    },
  ])
})

it('reports that GitHub refused, without its answer', async () => {
  const { file } = await gitHub(403)
  const credentials = await loadCredentials(file)

  const error = await credentials.read('github').catch((thrown: Error) => thrown)

  expect(String(error)).toContain('GitHub refused to create a token for octo/app (HTTP 403)')
  expect(String(error)).not.toContain(TOKEN)
})

it('creates it through the proxy of the company, and in no other way', async () => {
  const { asked, file } = await gitHub()
  const company = await startCompanyProxy({ resolve: () => (isClosed ? undefined : '127.0.0.1') })
  let isClosed = false
  onTestFinished(() => company.close())
  const upstreamProxy = `http://127.0.0.1:${company.port}`
  const credentials = await loadCredentials(file, { upstreamProxy })

  expect(await credentials.read('github')).toBe(TOKEN)
  isClosed = true
  await expect(credentials.read('github')).rejects.toThrow('cannot be reached')
  expect(company.asked).toHaveLength(2)
  expect(asked).toHaveLength(1)
})
