import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startCopilotService } from '../fakes/copilot-service.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { startTlsFront } from '../fakes/tls-front.ts'
import { anAgent, runTurn, streamed } from './agent-rig.ts'

const TOKEN = 'gho_0123456789abcdefghijABCDEFGHIJ012345'
const GITHUB = 'api.github.com'
const COPILOT = 'api.business.githubcopilot.com'

/** GitHub and the Copilot service under their real names, behind a proxy that knows no others. */
async function startGitHub() {
  const authority = createTestAuthority()
  const service = await startCopilotService({
    respond: () => ({ text: 'Hello.' }),
    publicOrigin: `https://${COPILOT}`,
  })
  const front = await startTlsFront(
    authority.serverFor(GITHUB, COPILOT),
    Number(new URL(service.origin).port),
  )
  const proxy = await startNameProxy(new Map([GITHUB, COPILOT].map((name) => [name, front.port])))
  const folder = mkdtempSync(join(tmpdir(), 'aw-github-'))
  const authorityFile = join(folder, 'ca.pem')
  writeFileSync(authorityFile, authority.certificate)
  onTestFinished(async () => {
    await Promise.all([service.close(), proxy.close()])
    front.close()
    rmSync(folder, { recursive: true })
  })
  return { service, proxy, authorityFile }
}

it('reaches GitHub through a proxy, under its real names, and trusts the given authority', async () => {
  const { service, proxy, authorityFile } = await startGitHub()
  const runtimeEnv = { HTTPS_PROXY: proxy.url, SSL_CERT_FILE: authorityFile }

  const { agent } = await anAgent(
    { kind: 'copilot', model: 'gpt-fake' },
    { fetchToken: async () => TOKEN, runtimeEnv },
  )
  const { result, events } = await runTurn(agent)

  expect(result).toEqual({ state: 'completed' })
  expect(streamed(events)).toBe('Hello.')
  expect(new Set(proxy.asked)).toEqual(new Set([GITHUB, COPILOT]))
  expect(service.requests[0]?.headers['authorization']).toBe(`Bearer ${TOKEN}`)
})

it("sends no token to a server with another authority's certificate", async () => {
  const { service, proxy } = await startGitHub()
  const runtimeEnv = { HTTPS_PROXY: proxy.url }

  const turn = anAgent(
    { kind: 'copilot', model: 'gpt-fake' },
    { fetchToken: async () => TOKEN, runtimeEnv },
  ).then(({ agent }) => runTurn(agent))

  const end = await turn.catch((error: unknown) => error)
  expect(end).not.toMatchObject({ result: { state: 'completed' } })
  expect(proxy.asked).toContain(GITHUB)
  expect(service.paths).toEqual([])
})
